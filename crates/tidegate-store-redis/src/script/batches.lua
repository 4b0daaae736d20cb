-- Batches: what each operation does, and that a refused batch does nothing.

-- Batches answered before or in this call, by the index of their key: the answer, and what they charged and nobody has
-- undone since.
local answered = {}

local function write_charge(made)
  local head = pack('>BI2c0c16', made.kind, #made.key, made.key, made.origin)
  local was = made.was
  head = head .. (was and pack('>BBc0ddd', 1, #was.spec, was.spec, was.a, was.b, was.c) or pack('B', 0))
  if made.kind == 1 then
    return head
      .. pack('>Bc0dddddd', #made.spec, made.spec, made.before_a, made.before_b, made.before_c, made.after_a, made.after_b,
        made.after_c)
      .. pack('>dI4I4', made.units, made.ticks_h, made.ticks_l)
  elseif made.kind == 2 then
    return head .. pack('>dd', made.at, made.units)
  end
  return head .. made.holder
end

local function read_charge(bytes, at)
  local made, changed_numbers = {}, nil
  made.kind, made.key, made.origin, changed_numbers, at = read('>BI2c0c16B', bytes, at)
  if changed_numbers == 1 then
    local was = {}
    was.spec, was.a, was.b, was.c, at = read('>Bc0ddd', bytes, at)
    made.was = was
  end
  if made.kind == 1 then
    made.spec, made.before_a, made.before_b, made.before_c, made.after_a, made.after_b, made.after_c, made.units,
      made.ticks_h, made.ticks_l, at = read('>Bc0dddddddI4I4', bytes, at)
  elseif made.kind == 2 then
    made.at, made.units, at = read('>dd', bytes, at)
  else
    made.holder, at = read('>c16', bytes, at)
  end
  return made, at
end

-- What was answered under a key, or nil.
local function answered_under(index)
  local known = answered[index]
  if known == nil then
    local bytes = call('GET', KEYS[index])
    known = false
    if bytes and string.byte(bytes) == LAYOUT then
      local _, count, at
      known = { charges = {} }
      _, known.fingerprint, known.answer, count, at = read('>Bc8I4c0B', bytes)
      for position = 1, count do known.charges[position], at = read_charge(bytes, at) end
    end
    answered[index] = known
  end
  return known or nil
end

local function save_answer(index, known)
  local parts = { pack('>Bc8I4c0B', LAYOUT, known.fingerprint, #known.answer, known.answer, #known.charges) }
  for position, made in ipairs(known.charges) do parts[position + 1] = write_charge(made) end
  local bytes = table.concat(parts)
  if not known.new then call('SET', KEYS[index], bytes, 'KEEPTTL') else call('SET', KEYS[index], bytes, 'PX', kept_ms) end
end

-- The operation at `at` in the bytes of a batch.
local function read_operation(bytes, at)
  local op, spec = {}, nil
  op.kind, op.shadow, op.key, spec, op.aux1, op.aux2, at = read('>BBI2I2I2I2', bytes, at)
  op.n = numbers_of(ARGV[3 + spec])
  if op.n.algorithm == CALENDAR then
    local window = windows[op.aux1]
    op.n.number, op.n.ends = window[1], window[2]
  end
  local kind = op.kind
  if kind <= REFUND then
    op.units, op.ticks_h, op.ticks_l, at = read('>dI4I4', bytes, at)
  elseif kind == UNDO or kind == GIVE_BACK then
    -- Giving back is undoing what a refusal elsewhere makes void: also the numbers are again those from before.
    op.kind, op.restores = UNDO, kind == GIVE_BACK
    op.answer, op.target, at = read('>I2c16', bytes, at)
  elseif kind == ACQUIRE or kind == RELEASE then
    op.holder, at = read('>c16', bytes, at)
  elseif kind == BLOCK then
    op.until_us, at = read('>d', bytes, at)
  end
  return op, at
end

-- Takes one charge back from a counter, as far as it is still there. How many units, if they are to be counted.
local function undo(record, made, by, counts)
  local n, m = record.n, record.n.m
  if made.kind == 1 then
    local used = counts and m.used(n, record.a, record.b, record.c)
    if made.spec == n.spec then
      record.a, record.b, record.c = m.undo(n, record.a, record.b, record.c, made)
    else
      -- Under the numbers in force the states mean something else: what has not drained of the charge under its own is
      -- given back in units.
      local was = numbers_of(made.spec)
      local left = m.used(was, made.after_a, made.after_b, made.after_c)
        - m.used(was, made.before_a, made.before_b, made.before_c)
      left = min(left, made.units)
      if left > 0 then record.a, record.b, record.c = m.refund(n, record.a, record.b, record.c, left) end
    end
    return used and max(0, used - m.used(n, record.a, record.b, record.c)) or 0
  end
  if not record.view then return 0 end
  if made.kind == 2 then return m.take_out(record.view, made.at, made.units) end
  return m.release(record.view, made.holder, by)
end

-- What a batch charged to the counter of an operation and is not undone yet, also not earlier in this batch.
local function charges_of(op, batch)
  local known, found = answered_under(op.answer), {}
  local name = op.answer .. ' ' .. op.key
  if known and not batch.undone[name] then
    batch.undone[name] = op
    for _, made in ipairs(known.charges) do
      if made.key == KEYS[op.key] then found[#found + 1] = made end
    end
  end
  return found
end

-- Carries an operation out, or refuses it and changes nothing. Notes in `op` whether it was admitted, what it was decided
-- on, and how many units it moved where that does not follow from the states.
local function apply(record, op, batch)
  local n, kind, m = op.n, op.kind, op.n.m
  local viewed = is_viewed(n.algorithm)
  local a, b, c, next_a, next_b, next_c, view
  op.admitted, op.units_moved, op.before_blocked = true, nil, record.blocked
  if viewed then
    view = view_under(record, op)
    op.before_a, op.before_b, op.before_c = 0, 0, 0
    if kind == ACQUIRE and m.holds(view, op.holder) then
      -- Who has a permit keeps it through a block.
      op.admitted = true
    elseif kind <= PEEK or kind == ACQUIRE then
      local fits, wait = m.decide(n, view, op.units)
      op.before_a = wait or 0
      op.admitted = fits and record.blocked <= now
    end
    op.units_moved = 0
  else
    a, b, c = under(record, n)
    op.before_a, op.before_b, op.before_c = a, b, c
    if kind <= PEEK then
      op.admitted, next_a, next_b, next_c = m.admits(n, a, b, c, op)
      op.admitted = op.admitted and record.blocked <= now
    end
  end
  if kind == PEEK or not op.admitted then return end

  if kind == RESET then
    record.changed = record.changed or record.exists
    record.exists, record.blocked = false, 0
  elseif kind == BLOCK then
    local lasts = op.until_us > now
    if lasts and not record.exists then begin(record, n, op, batch.id) end
    record.changed = record.changed or record.exists
    record.blocked = lasts and op.until_us or 0
  elseif kind == UNDO then
    local charges = charges_of(op, batch)
    -- What one charge gives back follows from the states before and after, under the same numbers.
    local counts = record.exists and (record.view or #charges > 1 or record.n.spec ~= n.spec)
    local units = 0
    for position = #charges, 1, -1 do
      local made = charges[position]
      if record.exists and made.origin == record.origin then
        local was = op.restores and made.was
        if was and made.kind == 1 then
          local unmoved = record.a == made.after_a and record.b == made.after_b and record.c == made.after_c
          was = record.n.spec == made.spec and unmoved and was
        end
        units = units + undo(record, made, op.target, counts)
        if was then
          record.n = numbers_of(was.spec)
          if not record.view then record.a, record.b, record.c = was.a, was.b, was.c end
        end
        record.changed = true
      end
    end
    if counts then op.units_moved = units end
  else
    local was
    if record.exists and record.n.algorithm == n.algorithm then
      if record.n.spec ~= n.spec then
        was = { spec = record.n.spec, a = record.a, b = record.b, c = record.c }
        -- Counts by these numbers from now on; what is used stays used.
        if not viewed then record.a, record.b, record.c = a, b, c end
        record.n, record.changed = n, true
      end
    elseif kind == CHECK or kind == REPORT or kind == ACQUIRE then
      -- Another algorithm starts anew with its first charge; a block is on the key and stays.
      begin(record, n, op, batch.id)
    else
      return
    end
    view = record.view
    local made
    if viewed then
      local at, units
      if kind == CHECK then
        at, units = m.charge(n, view, op.units), op.units
      elseif kind == REPORT then
        at, units = m.report(n, view, op.units)
      elseif kind == REFUND then
        units = m.refund(n, view, op.units)
      elseif kind == ACQUIRE then
        units = m.acquire(n, view, op.holder, batch.id)
        if units > 0 then made = { kind = 3, holder = op.holder } end
      else
        units = m.release(view, op.holder)
      end
      if at and units > 0 then made = { kind = 2, at = at, units = units } end
      op.units_moved = units
    elseif kind == REFUND then
      record.a, record.b, record.c = m.refund(n, a, b, c, op.units, op)
    else
      made = { kind = 1, spec = n.spec, before_a = a, before_b = b, before_c = c, units = op.units }
      made.ticks_h, made.ticks_l = op.ticks_h, op.ticks_l
      if kind == REPORT then
        next_a, next_b, next_c, made.units, made.ticks_h, made.ticks_l = m.charge(n, a, b, c, op)
        op.units_moved = made.units
      end
      made.after_a, made.after_b, made.after_c = next_a, next_b, next_c
      record.a, record.b, record.c = next_a, next_b, next_c
      if made.units == 0 then made = nil end
    end
    record.changed = true
    if made then
      made.key, made.origin, made.was = KEYS[op.key], record.origin, was
      batch.charges[#batch.charges + 1] = made
    end
  end

  if record.exists and is_empty(record) then record.exists = false end
  if not record.exists and #batch.charges > 0 then
    -- Charges to a counter that has been emptied are gone; a next operation begins another one.
    local kept = {}
    for _, made in ipairs(batch.charges) do
      if made.key ~= KEYS[op.key] then kept[#kept + 1] = made end
    end
    batch.charges = kept
  end
end

-- What an operation is answered: whether it was admitted, the counter as it is now, and what else it takes to tell the rest.
local function outcome(record, op, refused)
  local a, b, c = 0, 0, 0
  if is_viewed(op.n.algorithm) then
    a, b = op.n.m.usage(op.n, view_under(record, op))
  else
    a, b, c = under(record, op.n)
  end
  local blocked = record.blocked > now and record.blocked or 0
  local units = op.units_moved
  if refused then units = nil end
  local tells_before = not op.admitted or op.kind == REFUND or op.kind == UNDO
  local flags = (op.admitted and 1 or 0) + (tells_before and 2 or 0) + (units and 4 or 0)
  local bytes = pack('>Bdddd', flags, a, b, c, blocked)
  if tells_before then
    bytes = bytes .. pack('>dddd', op.before_a, op.before_b, op.before_c, op.before_blocked > now and op.before_blocked or 0)
  end
  if units then bytes = bytes .. pack('>d', units) end
  return bytes
end

-- One batch. Its answer, of which the first byte says what it is.
local ANSWER, ID_REUSED, OTHER_LAYOUT = 0, 1, 2
local function carry_out(bytes)
  local batch = { charges = {}, undone = {} }
  local mode, answer_key, fingerprint, count, note_count, at
  mode, answer_key, fingerprint, batch.id, count, note_count, at = read('>BI2c8c16BB', bytes)
  if answer_key > 0 then
    local known = answered_under(answer_key)
    if known then
      if known.fingerprint ~= fingerprint then return pack('B', ID_REUSED) end
      return pack('B', ANSWER) .. known.answer
    end
  end

  local ops, records, layout = {}, {}, nil
  for index = 1, count do
    ops[index], at = read_operation(bytes, at)
    records[index], layout = counter(ops[index])
    if layout then return pack('>BBB', OTHER_LAYOUT, index - 1, layout) end
  end

  local undoable = note_count > 0 or mode == TRY or (mode == ALL_OR_NOTHING and count > 1)
  local saved, outcomes, refused = {}, {}, false
  for index = 1, count do
    local op, record = ops[index], records[index]
    if undoable and not saved[record] then saved[record] = snapshot(record) end
    apply(record, op, batch)
    if mode ~= EACH and not op.admitted and op.shadow == 0 and op.kind ~= PEEK then refused = true end
    if not refused and mode ~= TRY then outcomes[index] = outcome(record, op, false) end
  end
  local changes = note_count > 0 and read_notes(bytes, at, note_count)
  refused = refused or (changes and notes_refuse(changes))
  local undone = refused or mode == TRY
  if undone then
    for record, before in pairs(saved) do restore(record, before) end
    for index = 1, count do outcomes[index] = outcome(records[index], ops[index], true) end
  end

  local answer = pack('>BdB', refused and 1 or 0, now, count) .. table.concat(outcomes)
  if not undone then
    for _, op in pairs(batch.undone) do
      local known, kept = answered_under(op.answer), {}
      if known and #known.charges > 0 then
        for _, made in ipairs(known.charges) do
          if made.key ~= KEYS[op.key] then kept[#kept + 1] = made end
        end
        known.charges, known.changed = kept, true
      end
    end
    if changes then answer = answer .. change_notes(changes) end
  else
    batch.charges = {}
  end
  if answer_key > 0 then
    answered[answer_key] = { fingerprint = fingerprint, answer = answer, charges = batch.charges, changed = true, new = true }
  end
  return pack('B', ANSWER) .. answer
end
