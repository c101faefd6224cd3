-- Runs scripts in an environment made of nothing but what is named here. Only texts and numbers come in or go out.
--
-- ask, printed, now and settle are functions of the process around; no script can reach them but through what stands
-- here. The bound of memory is raised for each text that comes in, since running out of it on that way would end the
-- process; settle sets it back, and what is over it then fails where the script takes more.

local json_source, modules_source, bytes_max, tool_names, ask, printed, now, settle = ...

local load, pcall, type, tostring, select, error = load, pcall, type, tostring, select, error
local concat, pack, find = table.concat, table.pack, string.find
local rawget, setmetatable, format, collectgarbage = rawget, setmetatable, string.format, collectgarbage

-- What fails out there comes as an object of Python, and that is nothing a script may hold.
local function outside(work, ...)
  local done, value = pcall(work, ...)
  if not done then error(type(value) == "string" and value or "not enough memory", 0) end
  return value
end

local json, writer, reader, clean, telling = load(json_source, "=json", "t")(bytes_max)

local function call_tool(name, arguments)
  local reply = outside(ask, name, arguments)
  settle()
  return reply
end

local text, time, tools = load(modules_source, "=modules", "t")(json, writer, reader, telling, call_tool, now, tool_names)

-- A finaliser would run where no script does.
local function guarded_setmetatable(value, metatable)
  if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
    error("a metatable with __gc is refused: there are no finalisers here", 2)
  end
  local done, result = pcall(setmetatable, value, metatable)
  if not done then error(result, 2) end
  return result
end

local function print_line(...)
  local parts = {}
  for index = 1, select("#", ...) do parts[index] = tostring((select(index, ...))) end
  outside(printed, clean(concat(parts, "\t")) .. "\n")
end

string.dump = nil
getmetatable("").__metatable = false

local function copied(library)
  local copy = {}
  for name, value in pairs(library) do copy[name] = value end
  return copy
end

local environment = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs, pcall = pcall,
  print = print_line, rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select,
  setmetatable = guarded_setmetatable, tonumber = tonumber, tostring = tostring, type = type, xpcall = xpcall,
  _VERSION = _VERSION, coroutine = copied(coroutine), string = copied(string), table = copied(table),
  math = copied(math), utf8 = copied(utf8), json = json, text = text, time = time, tools = tools,
}
environment._G = environment

-- What was raised, in words.
local function words_of(raised)
  if type(raised) == "string" then return clean(raised) end
  local metatable = type(raised) == "table" and getmetatable(raised)
  if type(metatable) == "table" and rawget(metatable, "__tostring") then
    local told, text = pcall(tostring, raised)
    if told then return clean(text) end
  end
  local shown, written = pcall(writer(true), raised)
  return shown and written or "an error that is a " .. type(raised)
end

-- Lua collects nothing when it has no room for a long text, so what was left would stand in the way of the next script.
local function failure(raised)
  if type(raised) == "string" and find(raised, "not enough memory", 1, true) then
    collectgarbage()
    return "memory", words_of(raised)
  end
  return "raised", words_of(raised)
end

local function finished(done, ...)
  if not done then return failure((...)) end
  local values = pack(...)
  local shown = {}
  for index = 1, values.n do
    local fits, written = pcall(writer(true), values[index])
    if not fits then return failure(written) end
    shown[index] = written
  end
  local written = "[" .. concat(shown, ",") .. "]"
  if #written > bytes_max then return "raised", format("the values are over %d bytes as JSON", bytes_max) end
  return "done", written
end

-- Runs one script; gives `done` and its values as a JSON list, or a kind of failure and its words.
return function(source)
  settle()
  local _, chunk, problem = pcall(load, source, "=script", "t", environment)
  source = nil
  if not chunk then
    return find(problem, "not enough memory", 1, true) and "memory" or "syntax", words_of(problem)
  end
  return finished(pcall(chunk))
end
