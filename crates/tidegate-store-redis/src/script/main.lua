-- The call itself.

local marker = call('GET', KEYS[1])
if marker ~= ARGV[2] then
  local seen = ARGV[2] ~= ''
  local found = marker
  if not found then
    found = ARGV[3]
    call('SET', KEYS[1], found)
  end
  -- What this member has counted is gone: it says so, and nothing is decided yet.
  if seen then return { LOST, now, marker or '' , found } end
  marker = found
end

for index = 1, window_count do
  local bytes, at = ARGV[3 + spec_count + index], 1
  local first, ends
  while at <= #bytes do
    local number, from, to
    number, from, to, at = read('>ddd', bytes, at)
    if from <= now and now < to then first, ends = number, to end
  end
  -- The member's clock is too far from this one: it names others.
  if not first then return { NO_WINDOW, now, marker } end
  windows[index] = { first, ends }
end

local reply = { ANSWERED, now, marker }
for index = 4 + spec_count + window_count, #ARGV do reply[#reply + 1] = carry_out(ARGV[index]) end

for index, record in pairs(counters) do
  if record.changed then save(index, record) end
end
for index, known in pairs(answered) do
  if known and known.changed then save_answer(index, known) end
end
return reply
