-- ctrain's Lua files run on Lua 5.4 and LuaJIT: the globals of both are known, new ones are errors.
std = "max"
max_line_length = 120
files["spec"] = { std = "+busted" }
exclude_files = { "build" }
