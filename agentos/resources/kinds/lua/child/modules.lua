-- The modules of a script beside json: text, time and tools.

local json, writer, reader, telling, call_tool, now, tool_names = ...

local type, error, format, pcall, tostring = type, error, string.format, pcall, tostring
local find, sub, gsub, lower, upper, match = string.find, string.sub, string.gsub, string.lower, string.upper, string.match
local concat, next, pairs, floor, setmetatable = table.concat, next, pairs, math.floor, setmetatable
local math_type, tointeger = math.type, math.tointeger
local select, gmatch = select, string.gmatch
local utf8_len, utf8_offset = utf8.len, utf8.offset

local NAME_BYTES_MAX = 128

local function needs(name, index, value, what, kind)
  if type(value) ~= kind then error(format("%s: argument %d is %s, not a %s", name, index, what, type(value)), 0) end
end

local function texts(name, ...)
  for index = 1, select("#", ...) do needs(name, index, select(index, ...), "a text", "string") end
end

-- The integer that a number is; of one that is too large for it, the last on its side.
local function whole_number(name, index, value)
  needs(name, index, value, "a number", "number")
  if value ~= value then error(format("%s: argument %d is no number", name, index), 0) end
  return tointeger(floor(value)) or (value > 0 and math.maxinteger or math.mininteger)
end

local text = {}

-- Where a text stands in another, taken as it is: the bytes of its beginning and its end; nil when it does not.
function text.find(whole, part, from)
  texts("text.find", whole, part)
  return find(whole, part, whole_number("text.find", 3, from or 1), true)
end

function text.contains(whole, part)
  texts("text.contains", whole, part)
  return find(whole, part, 1, true) ~= nil
end

function text.startswith(whole, part)
  texts("text.startswith", whole, part)
  return sub(whole, 1, #part) == part
end

function text.endswith(whole, part)
  texts("text.endswith", whole, part)
  return part == "" or sub(whole, -#part) == part
end

function text.trim(whole)
  texts("text.trim", whole)
  local from = find(whole, "%S")
  if not from then return "" end
  local to = #whole
  while find(whole, "^%s", to) do to = to - 1 end
  return sub(whole, from, to)
end

-- The parts between separators, which are taken as they are; without one the words between spaces.
function text.split(whole, separator)
  texts("text.split", whole, separator or "")
  local parts = {}
  if separator == nil then
    for word in gmatch(whole, "%S+") do parts[#parts + 1] = word end
    return parts
  end
  if separator == "" then error("text.split: the separator is empty", 0) end
  local from = 1
  while true do
    local first, last = find(whole, separator, from, true)
    if not first then break end
    parts[#parts + 1] = sub(whole, from, first - 1)
    from = last + 1
  end
  parts[#parts + 1] = sub(whole, from)
  return parts
end

function text.lines(whole)
  texts("text.lines", whole)
  local parts = text.split((gsub(whole, "\r\n", "\n")), "\n")
  if parts[#parts] == "" then parts[#parts] = nil end
  return parts
end

function text.join(parts, separator)
  needs("text.join", 1, parts, "a list", "table")
  needs("text.join", 2, separator or "", "a text", "string")
  for index = 1, #parts do
    local part = parts[index]
    if type(part) ~= "string" and not math_type(part) then
      error(format("text.join: part %d is a %s, no text", index, type(part)), 0)
    end
  end
  return concat(parts, separator or "")
end

-- Every occurrence of a text, taken as it is, becomes another; gives how many there were beside.
function text.replace(whole, old, new)
  texts("text.replace", whole, old, new)
  if old == "" then error("text.replace: the text to be replaced is empty", 0) end
  local parts = text.split(whole, old)
  return concat(parts, new), #parts - 1
end

-- In characters where the text is UTF-8, else in bytes.
function text.len(whole)
  texts("text.len", whole)
  return utf8_len(whole) or #whole
end

-- Characters from one to another, both included and counted as string.sub counts bytes.
function text.sub(whole, from, to)
  texts("text.sub", whole)
  from, to = whole_number("text.sub", 2, from), whole_number("text.sub", 3, to or -1)
  local length = utf8_len(whole)
  if not length then return sub(whole, from, to) end
  from = from < 0 and length + from + 1 or from
  to = to < 0 and length + to + 1 or to
  if from < 1 then from = 1 end
  if to > length then to = length end
  if from > to then return "" end
  return sub(whole, utf8_offset(whole, from), utf8_offset(whole, to + 1) - 1)
end

local time = {}
local SECONDS_MAX = 9999 * 366 * 86400

-- Seconds since 1970, UTC, by the clock of the kernel; what stands behind the point are parts of one.
function time.now()
  return now()
end

-- The seconds from one time to a later one.
function time.diff(later, earlier)
  needs("time.diff", 1, later, "a number", "number")
  needs("time.diff", 2, earlier, "a number", "number")
  return later - earlier
end

-- The date in the calendar of today, from days since 1970.
local function date_of(days)
  days = days + 719468
  local era = days // 146097
  local day = days - era * 146097
  local year = (day - day // 1460 + day // 36524 - day // 146096) // 365
  local rest = day - (365 * year + year // 4 - year // 100)
  local month = (5 * rest + 2) // 153
  local of_month = rest - (153 * month + 2) // 5 + 1
  local shown = month < 10 and month + 3 or month - 9
  return year + era * 400 + (shown <= 2 and 1 or 0), shown, of_month
end

-- A time as a text, in UTC: %Y %m %d %H %M %S %% are known; ISO 8601 without a pattern.
function time.format(seconds, pattern)
  if type(seconds) ~= "number" then error("time.format: a number of seconds is needed", 0) end
  needs("time.format", 2, pattern or "", "a text", "string")
  if not (seconds > -SECONDS_MAX and seconds < SECONDS_MAX) then error("time.format: no year that has a name", 0) end
  local whole = floor(seconds)
  local year, month, day = date_of(whole // 86400)
  local rest = whole % 86400
  local parts = {
    ["%Y"] = format("%04d", year), ["%m"] = format("%02d", month), ["%d"] = format("%02d", day),
    ["%H"] = format("%02d", rest // 3600), ["%M"] = format("%02d", rest // 60 % 60), ["%S"] = format("%02d", rest % 60),
    ["%%"] = "%",
  }
  local shown = gsub(pattern or "%Y-%m-%dT%H:%M:%SZ", "%%.?", function(part)
    if not parts[part] then error("time.format: " .. part .. " is none of %Y %m %d %H %M %S %%", 0) end
    return parts[part]
  end)
  return shown
end

for _, module in next, { text, time } do
  for name, work in pairs(module) do module[name] = telling(work) end
end
text.lower, text.upper, text.gsub, text.match, text.format = lower, upper, gsub, match, format

local tools = {}

local function arguments_text(name, arguments, level)
  if arguments == nil or type(arguments) == "table" and next(arguments) == nil then return "{}" end
  if type(arguments) ~= "table" then
    error(format("tools.%s: the arguments are a table by their names, not a %s", name, type(arguments)), level + 1)
  end
  local done, written = pcall(writer(false), arguments)
  if not done then error(format("tools.%s: %s", name, tostring(written)), level + 1) end
  if sub(written, 1, 1) == "[" then
    error(format("tools.%s: the arguments are a table by their names, not a list", name), level + 1)
  end
  return written
end

local function asked(name, arguments, level)
  if type(name) ~= "string" then error("tools.call: the name of a tool is a text", level + 1) end
  if #name > NAME_BYTES_MAX then
    error(format("tools.call: the name of a tool has at most %d bytes", NAME_BYTES_MAX), level + 1)
  end
  local reply = reader(call_tool(name, arguments_text(name, arguments, level + 1)))
  if reply.now_s then now(reply.now_s) end
  reply.now_s = nil
  return reply
end

-- Never raises for what becomes of the call: status is ok, error, not-found or not-allowed, result_txt what it gave.
function tools.call(name, arguments)
  return (asked(name, arguments, 2))
end

-- The names that may be called here; * and ? in one stand for others.
function tools.list()
  return reader(tool_names)
end

-- tools.NAME{...}: what the tool gave, a table when that is a list or an object in JSON; raises when it gave nothing.
setmetatable(tools, {
  __index = function(_, name)
    return function(arguments)
      local reply = asked(name, arguments, 2)
      if reply.status ~= "ok" then
        error(format("tools.%s: %s: %s", name, reply.status, reply.result_txt), 2)
      end
      if find(reply.result_txt, "^%s*[%[{]") then
        local done, value = pcall(reader, reply.result_txt)
        if done then return value end
      end
      return reply.result_txt
    end
  end,
  __metatable = false,
})

return text, time, tools
