-- The call itself.

for index = 1, window_count do
  local bytes, at = ARGV[3 + spec_count + index], 1
  local first, ends, starts, next_number, next_ends
  while at <= #bytes do
    local number, from, to
    number, from, to, at = read('>ddd', bytes, at)
    if first and not next_number then next_number, next_ends = number, to end
    if from <= now and now < to then first, ends, starts = number, to, from end
  end
  -- The member's clock is too far from this one: it names others.
  if not first then return { NO_WINDOW, now, marker } end
  -- A window that the member has not named is no further ahead than the next.
  windows[index] = { first, ends, starts, next_number or T53, next_ends or T53 }
end

-- The names of the answers, which are asked for at once, stand right behind the beginning of each
-- batch (0 for no name), or with each of those that ask for the same.
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

-- How often a call is decided: once more for each key that raised an error in the middle of a
-- batch, when that may have changed something in memory. Beyond that the call fails, and the member
-- sends its batches in smaller calls.
local TURNS_MAX = 8

local reply
for turn = 1, TURNS_MAX do
  if turn > 1 then
    -- Answers are then asked for one by one.
    counters, answered, fetched, unsaved = {}, {}, {}, {}
    if ledgers_made then ledgers_made.reset() end
    if notes_made then notes_made.reset() end
  end
  reply = { ANSWERED, now, marker }
  for index = first, #ARGV do
    local bytes = ARGV[index]
    at_key, is_applying = 0, false
    local is_done, answer = pcall(byte(bytes) == SAME and carry_out_same or general().carry_out, bytes)
    if not is_done then
      if at_key == 0 then error(answer) end
      local reason = reason_of(answer)
      if is_applying then
        unreadable, reply = unreadable or {}, nil
        unreadable[at_key] = reason
        break
      end
      answer = pack('>BBB', UNREADABLE, at_operation, reason)
    end
    reply[#reply + 1] = answer
  end
  if reply then break end
end
if not reply then error('too many keys of one call cannot be read') end

for index, record in pairs(counters) do
  if record.changed then save(index, record) end
end
save_unsaved()
if ledgers_made then ledgers_made.save_all() end
if notes_made then notes_made.save_all() end
for index, known in pairs(answered) do
  if known and known.changed then general().save_answer(index, known) end
end
return reply
