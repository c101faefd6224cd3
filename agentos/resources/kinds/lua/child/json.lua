-- JSON in Lua alone: texts are all that crosses between this state and the world outside, so that every piece of memory
-- it takes is taken where running out of it is an error of the script.
--
--   encode(value)          a table with the keys 1..n is a list, {} too; any other is an object, its keys sorted
--   decode(text [, null])  null is what JSON's null becomes: by default nil, and json.null within a list; numbers without
--                          point or exponent are integers
--   null                   encodes as null;  object(table) encodes as an object, also when it is empty
--
-- `show` is encode for the values of a script: what is no data stands as a text such as "<function>".

local bytes_max = ...

local DEPTH_MAX = 64
local type, next, rawlen, rawget, error, tostring = type, next, rawlen, rawget, error, tostring
local setmetatable, getmetatable, pcall, math_type = setmetatable, getmetatable, pcall, math.type
local find, sub, gsub, byte, format, match = string.find, string.sub, string.gsub, string.byte, string.format, string.match
local concat, sort = table.concat, table.sort
local utf8_len, utf8_char, tointeger, tonumber = utf8.len, utf8.char, math.tointeger, tonumber
local huge = math.huge

local null = setmetatable({}, { __name = "json.null", __tostring = function() return "null" end, __metatable = false })
local objects = { __metatable = "json.object" }

local SHORT = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escaped(character)
  return SHORT[character] or format("\\u%04x", byte(character))
end

-- A text as UTF-8; bytes that are none become U+FFFD.
local function clean(text)
  local length, bad = utf8_len(text)
  if length then return text end
  local pieces, from = {}, 1
  while not length do
    pieces[#pieces + 1] = sub(text, from, bad - 1)
    pieces[#pieces + 1] = "\u{FFFD}"
    from = bad + 1
    length, bad = utf8_len(text, from)
  end
  pieces[#pieces + 1] = sub(text, from)
  return concat(pieces)
end

local function quoted(text)
  return '"' .. gsub(clean(text), '[\0-\31"\\]', escaped) .. '"'
end

local function number_text(value)
  if math_type(value) == "integer" then return format("%d", value) end
  if value ~= value or value == huge or value == -huge then return nil end
  local text = format("%.15g", value)
  if tonumber(text) ~= value then text = format("%.17g", value) end
  return find(text, "[.e]") and text or text .. ".0"
end

-- The count of a list, or nil for an object.
local function list_size(value)
  if getmetatable(value) == "json.object" then return nil end
  local size, count = rawlen(value), 0
  for key in next, value do
    if math_type(key) ~= "integer" or key < 1 or key > size then return nil end
    count = count + 1
  end
  return count == size and size or nil
end

-- Writes one value. lenient: what is no data is told as a text, in place of an error.
local function writer(lenient)
  local pieces, total, open = {}, 0, {}
  local put_value

  local function put(piece)
    total = total + #piece
    if total > bytes_max then error(format("the values are over %d bytes as JSON", bytes_max), 0) end
    pieces[#pieces + 1] = piece
  end

  local function put_other(word)
    if not lenient then error(format("json.encode: %s has no JSON form", word), 0) end
    put('"<' .. word .. '>"')
  end

  local function put_object(value, depth)
    local names, values = {}, {}
    for key, inner in next, value do
      local name = type(key) == "string" and clean(key) or math_type(key) and tostring(key)
      if name and values[name] ~= nil then
        error(format("two keys of a table are %s as JSON", quoted(name)), 0)
      elseif name then
        names[#names + 1], values[name] = name, inner
      elseif not lenient then
        error(format("json.encode: a key that is a %s has no JSON form", type(key)), 0)
      end
    end
    sort(names)
    put("{")
    for index = 1, #names do
      if index > 1 then put(",") end
      put(quoted(names[index]))
      put(":")
      put_value(values[names[index]], depth)
    end
    put("}")
  end

  local function put_list(value, size, depth)
    put("[")
    for index = 1, size do
      if index > 1 then put(",") end
      put_value(rawget(value, index), depth)
    end
    put("]")
  end

  local function put_table(value, depth)
    if open[value] then return put_other("cycle") end
    if depth > DEPTH_MAX then return put_other("too deep") end
    open[value] = true
    local size = list_size(value)
    if size then put_list(value, size, depth + 1) else put_object(value, depth + 1) end
    open[value] = nil
  end

  function put_value(value, depth)
    local kind = type(value)
    if kind == "string" then
      put(quoted(value))
    elseif kind == "number" then
      local text = number_text(value)
      if text then put(text) else put_other(value ~= value and "nan" or value > 0 and "inf" or "-inf") end
    elseif kind == "boolean" then
      put(value and "true" or "false")
    elseif kind == "nil" or value == null then
      put("null")
    elseif kind == "table" then
      put_table(value, depth)
    else
      put_other(kind)
    end
  end

  return function(value)
    put_value(value, 1)
    return concat(pieces)
  end
end

local function wrong(what, at)
  error(format("json.decode: %s at byte %d", what, at), 0)
end

local PLAIN = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function code_at(text, at)
  local digits = match(text, "^%x%x%x%x", at)
  if not digits then wrong("\\u needs four hexadecimal digits", at) end
  return tonumber(digits, 16)
end

-- One \u escape, whose digits begin at a byte, with the second half of a pair; gives the text and where it goes on.
local function unicode(text, at)
  local code = code_at(text, at)
  if code >= 0xD800 and code < 0xDC00 and sub(text, at + 4, at + 5) == "\\u" then
    local low = code_at(text, at + 6)
    if low >= 0xDC00 and low < 0xE000 then
      return utf8_char(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 10
    end
  end
  if code >= 0xD800 and code < 0xE000 then return "\u{FFFD}", at + 4 end
  return utf8_char(code), at + 4
end

-- A text whose opening quote is at a byte; gives it, and where it goes on.
local function read_text(text, at)
  local pieces, from = {}, at + 1
  while true do
    local stop = find(text, '["\\\0-\31]', from)
    if not stop then wrong("a text without its end", at) end
    local character = sub(text, stop, stop)
    if character ~= '"' and character ~= "\\" then wrong("a control character in a text", stop) end
    pieces[#pieces + 1] = sub(text, from, stop - 1)
    if character == '"' then return concat(pieces), stop + 1 end
    local escape = sub(text, stop + 1, stop + 1)
    if escape == "u" then
      pieces[#pieces + 1], from = unicode(text, stop + 2)
    elseif PLAIN[escape] then
      pieces[#pieces + 1], from = PLAIN[escape], stop + 2
    else
      wrong("an unknown escape", stop)
    end
  end
end

local function read_number(text, at)
  local digits = match(text, "^-?%d+", at)
  if not digits or find(digits, "^-?0%d") then wrong("no value", at) end
  local rest = at + #digits
  local fraction = match(text, "^%.%d+", rest) or ""
  local exponent = match(text, "^[eE][+-]?%d+", rest + #fraction) or ""
  local value = tonumber(digits .. fraction .. exponent)
  return value, rest + #fraction + #exponent
end

local function reader(text, nothing)
  local read_value

  local function skip(at)
    return find(text, "[^ \t\r\n]", at) or #text + 1
  end

  -- The members of a list or an object until its end; read_one reads one, and gives where it goes on.
  local function read_members(at, last, read_one)
    at = skip(at + 1)
    if sub(text, at, at) == last then return at + 1, true end
    while true do
      at = skip(read_one(at))
      local character = sub(text, at, at)
      if character == last then return at + 1, false end
      if character ~= "," then wrong(format("',' or '%s' expected", last), at) end
      at = skip(at + 1)
    end
  end

  local function read_list(at, depth)
    local list, size = {}, 0
    at = read_members(at, "]", function(from)
      size = size + 1
      local value
      value, from = read_value(from, depth)
      list[size] = value == nil and null or value -- nothing at all would end the list there
      return from
    end)
    return list, at
  end

  local function read_object(at, depth)
    local object, empty = {}, false
    at, empty = read_members(at, "}", function(from)
      if sub(text, from, from) ~= '"' then wrong("a key in quotes expected", from) end
      local name, colon = read_text(text, from)
      colon = skip(colon)
      if sub(text, colon, colon) ~= ":" then wrong("':' expected", colon) end
      object[name], from = read_value(skip(colon + 1), depth)
      return from
    end)
    return empty and setmetatable(object, objects) or object, at
  end

  function read_value(at, depth)
    if depth > DEPTH_MAX then wrong(format("more than %d lists and objects in each other", DEPTH_MAX), at) end
    local character = sub(text, at, at)
    if character == '"' then return read_text(text, at) end
    if character == "{" then return read_object(at, depth + 1) end
    if character == "[" then return read_list(at, depth + 1) end
    local word = match(text, "^%a+", at)
    if word == "true" then return true, at + 4 end
    if word == "false" then return false, at + 5 end
    if word == "null" then return nothing, at + 4 end
    return read_number(text, at)
  end

  local value, at = read_value(skip(1), 1)
  at = skip(at)
  if at <= #text then wrong("more after the value", at) end
  return value
end

-- A function for scripts: its errors tell the line of the script that called it, and nothing of where they arose in here.
local function telling(work)
  local function told(done, ...)
    if done then return ... end
    local raised = (...)
    if type(raised) == "string" and raised ~= "not enough memory" then
      error(gsub(raised, "^%l+:%d+: ", ""), 2)
    end
    error(raised, 0)
  end
  return function(...)
    return told(pcall(work, ...))
  end
end

local json = { null = null }

json.encode = telling(function(value)
  return writer(false)(value)
end)

json.decode = telling(function(text, nothing)
  if type(text) ~= "string" then error(format("json.decode: a text is needed, not a %s", type(text)), 0) end
  return reader(text, nothing)
end)

json.object = telling(function(value)
  if value ~= nil and type(value) ~= "table" then
    error(format("json.object: a table is needed, not a %s", type(value)), 0)
  end
  return setmetatable(value or {}, objects)
end)

return json, writer, reader, clean, telling
