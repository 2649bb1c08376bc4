-- draw.lua: a model as text: its tree, a line a layer, with the parameters each holds.

local modules = require "ctrain.nn.module"

local Module = modules.Module

local function grouped(n)
  local text = ("%.0f"):format(n)
  while true do
    local shorter, changed = text:gsub("^(%d+)(%d%d%d)", "%1,%2")
    text = shorter
    if changed == 0 then return text end
  end
end

local function title(object)
  local name = modules.class_of(object).class_name
  local extra = object.extra_repr and object:extra_repr() or ""
  return extra == "" and name or name .. "(" .. extra .. ")"
end

local function count_of(object)
  local total = 0
  for _, parameter in ipairs(object:parameters()) do total = total + parameter:numel() end
  return total
end

-- The columns a UTF-8 text takes.
local function width_of(text)
  return #text:gsub("[\128-\191]", "")
end

---The tree of modules with the number of parameters in each.
---@return string
function Module:draw()
  local lines = { { title(self), count_of(self) } }
  local function draw_children(object, indent)
    local names, children = {}, {}
    for name, child in object:named_children() do
      names[#names + 1], children[#children + 1] = name, child
    end
    for i, child in ipairs(children) do
      local last = i == #children
      lines[#lines + 1] = { indent .. (last and "└─ " or "├─ ") .. names[i] .. ": " .. title(child), count_of(child) }
      draw_children(child, indent .. (last and "   " or "│  "))
    end
  end
  draw_children(self, "")
  local width, figures = 0, #grouped(lines[1][2])
  for _, line in ipairs(lines) do width = math.max(width, width_of(line[1])) end
  for i, line in ipairs(lines) do
    local text, figure = line[1], grouped(line[2])
    if i == 1 then
      lines[i] = ("%s%s  %s parameters"):format(text, (" "):rep(width - width_of(text)), figure)
    elseif line[2] == 0 then
      lines[i] = text
    else
      lines[i] = text .. (" "):rep(width - width_of(text) + 2 + figures - #figure) .. figure
    end
  end
  return table.concat(lines, "\n")
end

return Module.draw
