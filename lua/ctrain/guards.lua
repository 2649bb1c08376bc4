-- guards.lua: what a recorded step took for granted. While a step is being recorded, whoever decides something by
-- a plain value of an object (a module's training flag, a layer's rate, an optimizer's nesterov) notes it
-- here. The trace keeps the list, and fits a later call only while every value is still the same.

local guards = {}

local list, seen

---Starts a list. Lists do not nest: a step is recorded one at a time.
function guards.begin()
  list, seen = {}, {}
end

---Ends the list that guards.begin started.
---@return table[] list for guards.hold
function guards.finish()
  local result = list or {}
  list, seen = nil, nil
  return result
end

---Whether values are being noted.
---@return boolean
function guards.active() return list ~= nil end

---Notes that store[key] is `value`. The store is a plain table, so that looking again costs little.
function guards.note(store, key, value)
  local keys = seen[store]
  if not keys then
    keys = {}
    seen[store] = keys
  end
  if keys[key] then return end
  keys[key] = true
  list[#list + 1] = { store = store, key = key, value = value }
end

---Whether all noted values are as they were; if not, the entry that differs.
---@return boolean, table?
function guards.hold(entries)
  for i = 1, #entries do
    local entry = entries[i]
    if entry.store[entry.key] ~= entry.value then return false, entry end
  end
  return true
end

return guards
