-- Child processes: scripts run by ctrain or by a stock interpreter, with their output and exit code.
local process = {}

local function read_all(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

-- A word that the shell passes on as it is.
---@param word string
---@return string
function process.quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

---@class process.Result
---@field code integer exit code (128 + n for signal n)
---@field out string
---@field err string

-- Runs a shell command; `input` is given on standard input.
---@param command string
---@param input? string
---@return process.Result
function process.run(command, input)
  local name = os.tmpname()
  local given = name .. ".in"
  local file = assert(io.open(given, "wb"))
  file:write(input or "")
  file:close()
  local script = ("{ %s ; } <%s >%s.out 2>%s.err; echo $? >%s"):format(command, given, name, name, name)
  os.execute(script)
  local result = {
    code = tonumber(read_all(name):match("%d+")),
    out = read_all(name .. ".out"),
    err = read_all(name .. ".err"),
  }
  for _, path in ipairs({ name, given, name .. ".out", name .. ".err" }) do
    os.remove(path)
  end
  return result
end

-- The interpreter that runs this spec.
---@return string
function process.interpreter()
  local lowest = 0
  while arg and arg[lowest - 1] do
    lowest = lowest - 1
  end
  local name = arg and arg[lowest] or "lua5.4"
  if not name:match("lua") then
    name = rawget(_G, "jit") and "luajit" or "lua5.4"
  end
  return name
end

-- Runs Lua source in a fresh interpreter of the same kind, as file `name` (default script.lua) in a folder of its own.
---@param source string
---@param options? { name: string, env: string, interpreter: string, arguments: string, input: string }
---@return process.Result
function process.lua(source, options)
  options = options or {}
  local folder = process.folder()
  local path = folder .. "/" .. (options.name or "script.lua")
  local file = assert(io.open(path, "wb"))
  file:write(source)
  file:close()
  local result = process.run(("%s %s %s %s"):format(options.env or "", options.interpreter or process.interpreter(),
    process.quote(path), options.arguments or ""), options.input)
  process.remove(folder)
  return result
end

-- A new empty folder.
---@return string
function process.folder()
  local pipe = assert(io.popen("mktemp -d"))
  local path = pipe:read("*l")
  pipe:close()
  return path
end

---@param folder string one that process.folder made
function process.remove(folder)
  assert(folder:match("^/.*tmp"), "not a temporary folder")
  os.execute("rm -rf " .. process.quote(folder))
end

return process
