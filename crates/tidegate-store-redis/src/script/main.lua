-- The call itself.

for index = 1, window_count do
  local bytes, at = ARGV[3 + spec_count + index], 1
  local first, ends, starts
  while at <= #bytes do
    local number, from, to
    number, from, to, at = read('>ddd', bytes, at)
    if from <= now and now < to then first, ends, starts = number, to, from end
  end
  -- The member's clock is too far from this one: it names others.
  if not first then return { NO_WINDOW, now, marker } end
  windows[index] = { first, ends, starts }
end

-- The names of the answers, which are asked for at once, stand right behind the beginning of each batch (0 is none), or with
-- each of those that ask for the same.
local first, names, places = 4 + spec_count + window_count, {}, {}
for index = first, #ARGV do
  local bytes = ARGV[index]
  local from, to, step = 2, 2, 1
  if byte(bytes) == SAME then from, to, step = SAME_FROM, #bytes, SAME_BYTES end
  for at = from, to, step do
    local place = read('>I2', bytes, at)
    if place > 0 then names[#names + 1], places[#places + 1] = KEYS[place], place end
  end
end
if #names > 1 then
  -- The table of values may not become longer than the stack of the interpreter.
  for from = 1, #names, 1000 do
    for at, bytes in ipairs(call('MGET', unpack(names, from, min(from + 999, #names)))) do
      fetched[places[from + at - 1]] = bytes
    end
  end
end

local reply = { ANSWERED, now, marker }
for index = first, #ARGV do
  local bytes = ARGV[index]
  reply[#reply + 1] = byte(bytes) == SAME and carry_out_same(bytes) or general().carry_out(bytes)
end

for index, record in pairs(counters) do
  if record.changed then save(index, record) end
end
save_unsaved()
if ledgers_made then ledgers_made.save_all() end
for index, known in pairs(answered) do
  if known and known.changed then general().save_answer(index, known) end
end
return reply
