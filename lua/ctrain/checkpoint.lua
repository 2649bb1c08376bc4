-- checkpoint.lua: ct.save and ct.load, in the HDF5 checkpoint layout 0.5.
--
-- A checkpoint is a flat file. The tree that was saved is walked in order, lists from their first item, maps by
-- number keys, then string keys, then booleans; each leaf has a name: its keys joined by dots, list items from 0:
-- {model = {["fc.weight"] = t}, steps = {10, 20}} has the leaves model.fc.weight, steps.0 and steps.1.
--   * A tensor is the dataset of that name, in its own type (io/h5.h says how each is stored), contiguous, with the
--     attributes __TYPE__ = "TorchTensorSerializer", __TORCH__, __NUMPY__, shapes, dtypes and compressed.
--   * Numbers, booleans and strings have no dataset. They are in the root attribute "<name>.__metadata__", which every
--     leaf has: a JSON object with __spec__, __objects__ = [name], and "<name>.__metadata__" = {__TYPE__ =
--     "ScalarSerializer", scalar_value} or {__TYPE__ = "StringSerializer", string_value}. A string that is no
--     UTF-8 is {__TYPE__ = "BytesSerializer", hex_value}. Numbers with a point or exponent are floats.
--   * A tensor that was met before is {__TYPE__ = "LinkedObject", __LINKED__ = true, key = the first name}.
--   * The root attribute __spec__ is a JSON pair: the tree with "*" for each leaf (null where two keys of a map are
--     written alike), and the tree as PyTorch's pytree text, whose "context" lists the keys of a map in order and
--     with their types, and {"hex": ...} for a key that is no UTF-8.
--   * __version__ = 0.5 and __cstorch_version__ are written first, __SUCCESS__ = true last.
-- In names, '%' and '/', control characters and bytes that are no UTF-8 are written %XX, an empty key is %00. Dots in
-- keys stay as they are; where a name is taken already, "%2", "%3" ... is put behind it. Nobody need undo this: the
-- names of a tree follow from __spec__.

local backend = require "ctrain.backend"
local core = require "ctrain.core"
local json = require "ctrain.json"
local options = require "ctrain.options"

local fail, is_tensor = options.fail, options.is_tensor

local checkpoint = {}

local version = 0.5
local deepest = 100

-- ---- Names -----------------------------------------------------------------------------------------------

local function percent(byte) return ("%%%02X"):format(byte:byte()) end

-- Length of the UTF-8 sequence at `at`, or nil.
local function sequence(text, at)
  local a, b = text:byte(at, at + 1)
  local n = a < 0x80 and 1 or a < 0xC2 and 0 or a < 0xE0 and 2 or a < 0xF0 and 3 or a < 0xF5 and 4 or 0
  if n == 0 or #text < at + n - 1 then return nil end
  if n > 1 and (text:find("[^\128-\191]", at + 1) or #text + 1) < at + n then return nil end
  if (a == 0xE0 and b < 0xA0) or (a == 0xED and b > 0x9F) or (a == 0xF0 and b < 0x90) or (a == 0xF4 and b > 0x8F) then
    return nil
  end
  return n
end

local function is_utf8(text)
  local at = text:find("[\128-\255]")
  while at and at <= #text do
    local n = sequence(text, at)
    if not n then return false end
    at = at + n
  end
  return true
end

local function key_text(key)
  if type(key) == "number" and json.is_integer(key) then return ("%d"):format(key) end
  local text = tostring(key)
  if text == "" then return "%00" end
  text = text:gsub("[%%/%c]", percent)
  return is_utf8(text) and text or (text:gsub("[\128-\255]", percent))
end

-- The name of a leaf, unlike all names in `taken`.
local function leaf_name(path, taken)
  local name = path == "." and "%2E" or path
  local n = 1
  while taken[name] do
    n = n + 1
    name = path .. "%" .. n
  end
  taken[name] = true
  return name
end

local function join(path, key)
  return path and path .. "." .. key_text(key) or key_text(key)
end

-- ---- The tree --------------------------------------------------------------------------------------------

local ranks = { number = 1, string = 2, boolean = 3 }

-- Keys in the order of the file, and whether they are 1 .. n.
local function keys_of(value, where)
  local keys = {}
  for key in next, value do
    if not ranks[type(key)] then fail("ct.save: %s has a %s as a key", where, type(key)) end
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return ranks[type(a)] < ranks[type(b)] end
    if type(a) == "boolean" then return b and not a end
    return a < b
  end)
  return keys, #keys > 0 and keys[1] == 1 and keys[#keys] == #keys and type(keys[#keys]) == "number"
end

local leaf_spec = json.object({ type = json.null, context = json.null, children_spec = json.list {} },
  { "type", "context", "children_spec" })

local function node_spec(kind, context, children)
  return json.object({ type = kind, context = context, children_spec = json.list(children) },
    { "type", "context", "children_spec" })
end

local function spec_text(node) return json.encode(json.list { 1, node }) end

local function hexadecimal(text) return (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

local function from_hexadecimal(text)
  return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function written_key(key)
  if type(key) == "string" and not is_utf8(key) then return { hex = hexadecimal(key) } end
  return key
end

local function check_leaf(value, where)
  local kind = type(value)
  if is_tensor(value) or kind == "number" or kind == "string" or kind == "boolean" then return end
  if kind == "cdata" and json.is_integer(value) then return end
  fail("ct.save: %s is a %s; tensors, numbers, strings, booleans and tables of these can be saved", where, kind)
end

local function place(path)
  if not path then return "the object" end
  return #path > 80 and "'..." .. path:sub(-77) .. "'" or "'" .. path .. "'"
end

-- The key of a map in its skeleton, whose keys are strings: nil where another one is written the same.
local function skeleton_key(key, skeleton)
  local text = type(key) == "string" and is_utf8(key) and key or key_text(key)
  return skeleton[text] == nil and text or nil
end

-- Walks the tree: calls leaf(path, value); returns its skeleton (nil where JSON has none) and its pytree.
local function describe(value, path, inside, depth, leaf)
  local where = place(path)
  if type(value) ~= "table" then
    check_leaf(value, where)
    leaf(path, value)
    return "*", leaf_spec
  end
  if inside[value] then fail("ct.save: %s contains itself", where) end
  if depth > deepest then fail("ct.save: %s is nested deeper than %d tables", where, deepest) end
  if getmetatable(value) ~= nil then fail("ct.save: %s is an object; save its state_dict()", where) end
  inside[value] = true
  local keys, is_list = keys_of(value, where)
  local skeleton, names, children, written, whole = {}, {}, {}, {}, true
  for i, key in ipairs(keys) do
    local part, spec = describe(value[key], join(path, is_list and i - 1 or key), inside, depth + 1, leaf)
    local name = is_list and i or skeleton_key(key, skeleton)
    whole = whole and part and name ~= nil
    if whole then names[i], skeleton[name] = name, part end
    children[i], written[i] = spec, written_key(key)
  end
  inside[value] = nil
  local tree = is_list and node_spec("builtins.list", "null", children)
    or node_spec("builtins.dict", json.encode(json.list(written)), children)
  if not whole then return nil, tree end
  return is_list and json.list(skeleton) or json.object(skeleton, names), tree
end

-- ---- Saving ----------------------------------------------------------------------------------------------

local leaf_text = spec_text(leaf_spec)

local function write_metadata(file, name, fields)
  file:set(nil, name .. ".__metadata__", json.encode {
    __spec__ = json.list { "*", leaf_text },
    __objects__ = json.list { name },
    [name .. ".__metadata__"] = fields,
  })
end

local function write_tensor(file, name, tensor)
  tensor = tensor:detach():contiguous()
  file:write(name, tensor)
  local shape, dtype = tensor.shape, "torch." .. tensor.dtype
  file:set(name, "__TYPE__", "TorchTensorSerializer")
  file:set(name, "__TORCH__", true)
  file:set(name, "__NUMPY__", true)
  file:set(name, "compressed", false)
  file:set(name, "dtypes", { dtype })
  file:set_shapes(name, "shapes", shape)
  write_metadata(file, name, {
    __TYPE__ = "TorchTensorSerializer", __TORCH__ = true, __NUMPY__ = true, compressed = false,
    dtypes = json.list { dtype }, shapes = json.list { json.list(shape) },
  })
end

local function write_leaf(file, name, value, written)
  if is_tensor(value) then
    local identity = core.h5.identity(value)
    if written[identity] then
      write_metadata(file, name, { __TYPE__ = "LinkedObject", __LINKED__ = true, key = written[identity] })
    else
      written[identity] = name
      write_tensor(file, name, value)
    end
  elseif type(value) ~= "string" then
    write_metadata(file, name, { __TYPE__ = "ScalarSerializer", __NONE__ = true, scalar_value = value })
  elseif is_utf8(value) then
    write_metadata(file, name, { __TYPE__ = "StringSerializer", __NONE__ = true, string_value = value })
  else
    write_metadata(file, name, { __TYPE__ = "BytesSerializer", __NONE__ = true, hex_value = hexadecimal(value) })
  end
end

local function write_all(file, leaves, spec)
  file:set(nil, "__version__", version)
  file:set(nil, "__cstorch_version__", "ctrain " .. core.version)
  file:set(nil, "__spec__", spec)
  local written, taken = {}, {}
  for _, leaf in ipairs(leaves) do write_leaf(file, leaf_name(leaf.path, taken), leaf.value, written) end
  file:set(nil, "__SUCCESS__", true)
  file:commit()
end

---Saves a table of tensors, numbers, strings, booleans and such tables as an HDF5 checkpoint. The file appears under
---its name only when it is complete; what was there before survives any failure.
---@param obj table
---@param checkpoint_file string path
function checkpoint.save(obj, checkpoint_file, given)
  options.check(given, {}, "ct.save")
  if type(obj) ~= "table" then
    fail("ct.save: expected a table to save, not %s", options.describe_value(obj))
  end
  if type(checkpoint_file) ~= "string" then
    fail("ct.save: checkpoint_file must be a path, not %s", options.describe_value(checkpoint_file))
  end
  if core.tracing() then
    fail("ct.save: tensors have no values inside a traced step; call ct.save in a checkpoint_closure")
  end
  if backend.dry_run() then
    core.log("info", ("ct.save: '%s' is not written: the backend runs no step (%s)"):format(checkpoint_file,
      backend.dry_run()))
    return
  end
  local leaves = {}
  local skeleton, tree = describe(obj, nil, {}, 1, function(path, value)
    leaves[#leaves + 1] = { path = path, value = value }
  end)
  local spec = json.encode(json.list { skeleton or json.null, spec_text(tree) })
  local file = core.h5.create(checkpoint_file, "ct.save")
  local ok, problem = pcall(write_all, file, leaves, spec)
  file:close()
  if not ok then error(problem, 0) end
end

-- ---- Loading ---------------------------------------------------------------------------------------------

local function decode(text, path, what)
  local ok, value = pcall(json.decode, text)
  if not ok then fail("ct.load: '%s': %s is damaged: %s", path, what, tostring(value)) end
  return value
end

-- The dictionary of metadata of a leaf, or nil.
local function metadata_of(file, path, name)
  local text = file:get(nil, name .. ".__metadata__")
  if text == nil then return nil end
  local outer = type(text) == "string" and decode(text, path, "the metadata of '" .. name .. "'")
  local inner = type(outer) == "table" and outer[name .. ".__metadata__"]
  return type(inner) == "table" and inner or nil
end

local function read_leaf(reader, name, linked)
  local loaded = reader.loaded[name]
  if loaded ~= nil then return loaded end
  local file, path = reader.file, reader.path
  local metadata = metadata_of(file, path, name) or {}
  local value
  if metadata.__LINKED__ then
    if type(metadata.key) ~= "string" or linked then fail("ct.load: '%s': '%s' is a link to nothing", path, name) end
    value = read_leaf(reader, metadata.key, true)
  elseif metadata.scalar_value ~= nil then
    value = metadata.scalar_value
  elseif metadata.string_value ~= nil then
    value = metadata.string_value
  elseif type(metadata.hex_value) == "string" then
    value = from_hexadecimal(metadata.hex_value)
  elseif type(metadata.__TYPE__) == "string" and metadata.__TYPE__:find("^None") then
    return nil
  elseif file:get(name, "__BYTES__") ~= nil then
    fail("ct.load: '%s': '%s' holds a pickled Python object, which is not read", path, name)
  else
    value = file:read(name)
  end
  if value == json.null then value = nil end
  if type(value) == "table" then fail("ct.load: '%s': '%s' has damaged metadata", path, name) end
  reader.loaded[name] = value
  return value
end

local dicts = { ["builtins.dict"] = true, ["collections.OrderedDict"] = true, ["collections.defaultdict"] = true }
local lists = { ["builtins.list"] = true, ["builtins.tuple"] = true, ["collections.deque"] = true }

local function read_key(key)
  if type(key) == "table" and type(key.hex) == "string" then return from_hexadecimal(key.hex) end
  local kind = type(key)
  if (kind == "string" or kind == "number" or kind == "boolean") and key == key then return key end
end

local build

local function build_dict(reader, node, path)
  local keys = decode(node.context, reader.path, "__spec__")
  if node.type == "collections.defaultdict" and type(keys) == "table" then keys = keys[2] end
  if type(keys) ~= "table" or #keys ~= #node.children_spec then
    fail("ct.load: '%s': __spec__ is damaged", reader.path)
  end
  local result = {}
  for i, child in ipairs(node.children_spec) do
    local key = read_key(keys[i])
    if key == nil then fail("ct.load: '%s': __spec__ is damaged", reader.path) end
    result[key] = build(reader, child, join(path, key))
  end
  return result
end

-- The value that a node of the pytree stands for.
build = function(reader, node, path)
  if type(node) ~= "table" or type(node.children_spec) ~= "table" then
    fail("ct.load: '%s': __spec__ is damaged", reader.path)
  end
  if node.type == json.null then return read_leaf(reader, leaf_name(path or "", reader.taken)) end
  if dicts[node.type] and type(node.context) == "string" then return build_dict(reader, node, path) end
  if not lists[node.type] then
    fail("ct.load: '%s': '%s' is a Python %s, which is not read", reader.path, path or "the root", tostring(node.type))
  end
  local result = {}
  for i, child in ipairs(node.children_spec) do result[i] = build(reader, child, join(path, i - 1)) end
  return result
end

-- The same from the skeleton alone, where keys are strings.
local function build_skeleton(reader, node, path)
  if node == "*" then return read_leaf(reader, leaf_name(path or "", reader.taken)) end
  if type(node) ~= "table" then fail("ct.load: '%s': __spec__ is damaged", reader.path) end
  local result, keys = {}, json.keys(node)
  if keys then
    for _, key in ipairs(keys) do result[key] = build_skeleton(reader, node[key], join(path, key)) end
  else
    for i, child in ipairs(node) do result[i] = build_skeleton(reader, child, join(path, i - 1)) end
  end
  return result
end

-- A file that does not say its tree: its leaves by name.
local function build_flat(reader)
  local result = {}
  for _, name in ipairs(reader.file:datasets()) do result[name] = read_leaf(reader, name) end
  for _, attribute in ipairs(reader.file:attributes(nil)) do
    local name = attribute:match("^(.+)%.__metadata__$")
    local metadata = name and result[name] == nil and metadata_of(reader.file, reader.path, name)
    if metadata and (metadata.scalar_value ~= nil or metadata.string_value ~= nil) then
      result[name] = read_leaf(reader, name)
    end
  end
  return result
end

local function check_header(file, path)
  local found, success = file:get(nil, "__version__"), file:get(nil, "__SUCCESS__")
  if found == nil and success == nil then
    fail("ct.load: '%s' is an HDF5 file, but not a checkpoint (it has no __version__)", path)
  end
  if success ~= true then
    fail("ct.load: cannot load partially written checkpoint '%s': its writer was stopped before the end (no "
      .. "__SUCCESS__); use an earlier one", path)
  end
  if type(found) ~= "number" or math.abs(found - version) > 1e-6 then
    fail("ct.load: '%s' has the checkpoint layout %s; this build reads %s", path, tostring(found), tostring(version))
  end
end

local function read_all(file, path)
  check_header(file, path)
  local reader = { file = file, path = path, loaded = {}, taken = {} }
  local text = file:get(nil, "__spec__")
  if type(text) ~= "string" then return build_flat(reader) end
  local pair = decode(text, path, "__spec__")
  if type(pair) ~= "table" then fail("ct.load: '%s': __spec__ is damaged", path) end
  local tree = pair[2]
  if type(tree) == "string" then tree = decode(tree, path, "__spec__") end
  if type(tree) == "table" and type(tree[2]) == "table" then return build(reader, tree[2]) end
  return build_skeleton(reader, pair[1])
end

---Loads what ct.save wrote.
---@param checkpoint_file string path
---@param map_location string? nil, "cache" or "cpu"
---@return table
function checkpoint.load(checkpoint_file, map_location)
  if type(map_location) == "table" and getmetatable(map_location) == nil then
    map_location = options.check(map_location, { map_location = options.none }, "ct.load").map_location
  end
  if type(checkpoint_file) ~= "string" then
    fail("ct.load: checkpoint_file must be a path, not %s", options.describe_value(checkpoint_file))
  end
  if map_location ~= nil and map_location ~= "cache" and map_location ~= "cpu" then
    fail("ct.load: map_location must be nil, \"cache\" or \"cpu\", not %s", options.describe_value(map_location))
  end
  if core.tracing() then fail("ct.load: a file cannot be read inside a traced step") end
  local file = core.h5.open(checkpoint_file, "ct.load")
  local ok, result = pcall(read_all, file, checkpoint_file)
  file:close()
  if not ok then error(result, 0) end
  return result
end

return checkpoint
