-- Many batches that ask for the same: one check each, of one counter by the same numbers for the
-- same cost. They are decided one after the other as any others, by the same functions, without
-- what other batches need room for: that is what makes a hot key cheap.

-- Where the first of them stands in the bytes, and how many bytes each takes.
local SAME_FROM, SAME_BYTES = 30, 26

-- The answers of such batches as they are kept, by the index of their key; those to write, in
-- order.
local unsaved = {}

local function carry_out_same(bytes)
  local op, at = read_operation(bytes, 2)
  local count, replies = 0, {}
  count, at = read('>I2', bytes, at)
  local n, m, key, units = op.n, op.n.m, KEYS[op.key], op.units
  local record, layout, blocked
  local fault = unreadable and unreadable[op.key]
  for index = 1, count do
    local answer_key, fingerprint, id
    answer_key, fingerprint, id, at = read('>I2c8c16', bytes, at)
    local known, answer = answered_under(answer_key), nil
    if not known and not record and not layout and not fault then
      -- Not before there is something to decide: looking at a counter may bring it back, where the
      -- clock has stepped back.
      local is_read
      is_read, record, layout = pcall(counter, op)
      if not is_read then fault, record = reason_of(record), nil end
      blocked = record and record.blocked > now and record.blocked or 0
    end
    if known then
      answer = known.fingerprint == fingerprint and known.answer or ID_REUSED
    elseif fault then
      answer = pack('>BBB', UNREADABLE, 0, fault)
    elseif layout then
      answer = pack('>BBB', OTHER_LAYOUT, 0, layout)
    else
      local a, b, c = under(record, n, op.keeps_instant)
      local fits, next_a, next_b, next_c = m.admits(n, a, b, c, op)
      local kept
      if fits and blocked == 0 then
        local was = ''
        if not record.exists or record.n.algorithm ~= n.algorithm then
          begin(record, n, op, id)
        elseif record.n.spec ~= n.spec then
          was = pack('>Bc0ddd', #record.n.spec, record.n.spec, record.a, record.b, record.c)
        end
        record.n, record.a, record.b, record.c, record.changed = n, next_a, next_b, next_c, true
        answer = pack('>BBdBBdddd', ANSWER, 0, now, 1, 1, next_a, next_b, next_c, 0)
        kept = pack('>Bc8I4c0BBI2c0c16Bc0dddddddI4I4B', LAYOUT, fingerprint, #answer, answer, 1, 1, #key, key,
          record.origin, #n.spec, n.spec, a, b, c, next_a, next_b, next_c, units, op.ticks_h, op.ticks_l,
          was == '' and 0 or 1) .. was
      else
        answer = pack('>BBdBBdddddddd', ANSWER, 1, now, 1, 2, a, b, c, blocked, a, b, c, blocked)
        kept = pack('>Bc8I4c0B', LAYOUT, fingerprint, #answer, answer, 0)
      end
      -- Read again only if something else in this call asks for it.
      fetched[answer_key], answered[answer_key] = kept, nil
      unsaved[#unsaved + 1] = answer_key
    end
    replies[index] = pack('>I2c0', #answer, answer)
  end
  return concat(replies)
end

local function save_unsaved()
  for _, answer_key in ipairs(unsaved) do
    local known = answered[answer_key]
    if known and known.changed then
      known.new = true
    else
      call('SET', KEYS[answer_key], fetched[answer_key], 'PX', kept_ms)
    end
  end
end
