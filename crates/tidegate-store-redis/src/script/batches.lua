-- Batches: what each operation does, and that a refused batch does nothing.

-- The first byte of an answer: an answer, or the reason for its absence.
local ANSWER, ID_REUSED, OTHER_LAYOUT, UNREADABLE = 0, '\001', 2, 3
-- Why a key cannot be read.
local WRONG_TYPE, DAMAGED = 1, 2

-- Why the key of an operation cannot be read, by the error that reading it raised. Any other error
-- of a command, such as a right that is missing, is of the whole call.
local function reason_of(raised)
  local text = type(raised) == 'table' and raised.err or raised
  if string.find(text, 'WRONGTYPE', 1, true) then return WRONG_TYPE end
  if type(raised) == 'table' then error(raised) end
  return DAMAGED
end

-- The operation, from 0, that the batch in hand is at, and after those the note; the index of its
-- key; and whether the batch may have changed something in memory.
local at_operation, at_key, is_applying = 0, 0, false
-- Why keys that raised an error in the middle of a batch cannot be read, by index; nil while none
-- has.
local unreadable


-- Lists of the batch that is carried out, used again by the next.
local ops, records, outcomes = {}, {}, {}
local NOTHING = {}
-- The fingerprint of no batch.
local NO_BATCH = string.rep('\0', 8)

-- Batches answered before or in this call, by the index of their key: the answer, and what they
-- charged and nobody has undone since.
local answered = {}

-- The values under the names of the answers of this call's batches, by their index.
local fetched = {}

local function read_charge(bytes, at)
  local made, changed_numbers = {}, nil
  made.kind, made.key, made.origin, at = read('>BI2c0c16', bytes, at)
  if made.kind == 1 then
    made.spec, made.before_a, made.before_b, made.before_c, made.after_a, made.after_b, made.after_c, made.units,
      made.ticks_h, made.ticks_l, changed_numbers, at = read('>Bc0dddddddI4I4B', bytes, at)
  elseif made.kind == 2 then
    made.at, made.units, changed_numbers, at = read('>ddB', bytes, at)
  else
    made.holder, changed_numbers, at = read('>c16B', bytes, at)
  end
  if changed_numbers == 1 then
    local was = {}
    was.spec, was.a, was.b, was.c, at = read('>Bc0ddd', bytes, at)
    made.was = was
  end
  return made, at
end

-- The answer kept under a key, or nil. An unreadable answer counts as absent: it is written anew.
local function answered_under(index)
  local known = answered[index]
  if known == nil then
    -- Most were asked for all at once.
    local bytes = fetched[index]
    if bytes == nil then bytes = redis.pcall('GET', KEYS[index]) end
    known = false
    if type(bytes) == 'string' and byte(bytes) == LAYOUT then
      local answer, is_read = { charges = {} }, nil
      is_read = pcall(function()
        local _, count, at
        _, answer.fingerprint, answer.answer, count, at = read('>Bc8I4c0B', bytes)
        for position = 1, count do answer.charges[position], at = read_charge(bytes, at) end
      end)
      known = is_read and answer
    end
    answered[index] = known
  end
  return known or nil
end

-- The operation at `at` in the bytes of a batch, with room for what becomes of it.
local function read_operation(bytes, at)
  local kind, flags, key, spec, aux1, aux2
  kind, flags, key, spec, aux1, aux2, at = read('>BBI2I2I2I2', bytes, at)
  if kind > GIVE_BACK then return ledgers().read_operation(bytes, at, kind, key, spec, aux1) end
  local n = numbers_of(ARGV[3 + spec])
  local op = {
    kind = kind, shadow = flags % 2, keeps_instant = flags >= 2, key = key, n = n, aux1 = aux1, aux2 = aux2, units = 0,
    ticks_h = 0, ticks_l = 0, admitted = true, before_a = 0, before_b = 0, before_c = 0, before_blocked = 0,
    units_moved = false, holder = false,
  }
  if kind <= REFUND then
    op.units, op.ticks_h, op.ticks_l, at = read('>dI4I4', bytes, at)
  elseif kind == ACQUIRE or kind == RELEASE then
    op.holder, at = read('>c16', bytes, at)
  elseif kind == UNDO or kind == GIVE_BACK then
    -- Giving back is undoing what a refusal elsewhere makes void: also the numbers are again those
    -- from before.
    op.kind, op.restores = UNDO, kind == GIVE_BACK
    op.answer, op.target, at = read('>I2c16', bytes, at)
  elseif kind == BLOCK then
    op.until_us, at = read('>d', bytes, at)
  end
  if n.algorithm == CALENDAR then
    local window = windows[aux1]
    n.number, n.ends, n.next_number = window[1], window[2], window[4]
  end
  return op, at
end

-- Batches of any kind: made when a call has one, as the algorithms are. Most calls only have checks
-- that are alone in theirs.
local general_made
local function general()
  if general_made then return general_made end

  local function is_empty(record)
    if record.blocked > 0 then return false end
    if record.n.viewed then return record.view ~= nil and record.n.m.is_empty(record.view) end
    -- Of a bucket and a calendar, the third number is an instant.
    return record.a == 0 and record.b == 0 and (record.c == 0 or record.n.algorithm == CALENDAR or record.n.algorithm == BUCKET)
  end

  local function snapshot(record)
    if record.of then return record.of.snapshot(record) end
    return {
      record.exists, record.n, record.origin, record.a, record.b, record.c, record.blocked, record.changed, record.view,
      record.view and record.n.m.snapshot(record.view), record.blocked_for,
    }
  end

  local function restore(record, saved)
    if record.of then return record.of.restore(record, saved) end
    record.exists, record.n, record.origin, record.a, record.b, record.c = unpack(saved, 1, 6)
    record.blocked, record.changed, record.view, record.blocked_for = saved[7], saved[8], saved[9], saved[11]
    if saved[10] then record.n.m.restore(record.view, saved[10]) end
  end

  local function view_under(record, op)
    if record.exists and record.view and record.n.algorithm == op.n.algorithm then return record.view end
    return op.n.m.view({ raw = false, a = 0 }, op)
  end

  local function write_charge(made)
    local was, bytes = made.was, nil
    if made.kind == 1 then
      bytes = pack('>BI2c0c16Bc0dddddddI4I4B', 1, #made.key, made.key, made.origin, #made.spec, made.spec, made.before_a,
        made.before_b, made.before_c, made.after_a, made.after_b, made.after_c, made.units, made.ticks_h, made.ticks_l,
        was and 1 or 0)
    elseif made.kind == 2 then
      bytes = pack('>BI2c0c16ddB', 2, #made.key, made.key, made.origin, made.at, made.units, was and 1 or 0)
    else
      bytes = pack('>BI2c0c16c16B', 3, #made.key, made.key, made.origin, made.holder, was and 1 or 0)
    end
    if was then bytes = bytes .. pack('>Bc0ddd', #was.spec, was.spec, was.a, was.b, was.c) end
    return bytes
  end

  local function save_answer(index, known)
    local charges = known.charges
    local bytes = pack('>Bc8I4c0B', LAYOUT, known.fingerprint, #known.answer, known.answer, #charges)
    for position = 1, #charges do bytes = bytes .. write_charge(charges[position]) end
    if known.new then call('SET', KEYS[index], bytes, 'PX', kept_ms) else call('SET', KEYS[index], bytes, 'KEEPTTL') end
  end

  -- Takes one charge back from a counter, as far as it is still there. How many units, if they are
  -- to be counted.
  local function undo(record, made, op, counts)
    local n, m = record.n, record.n.m
    if made.kind == 1 then
      local used = counts and m.used(n, record.a, record.b, record.c)
      if made.spec == n.spec then
        record.a, record.b, record.c = m.undo(n, record.a, record.b, record.c, made)
      elseif op.keeps_instant and m.undo_instant then
        record.a, record.b, record.c = m.undo_instant(n, record.a, record.b, record.c, made, numbers_of(made.spec))
      else
        -- Under the numbers in force the states mean something else: what has not drained of the
        -- charge under its own is given back in units.
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
    return m.release(record.view, made.holder, op.target)
  end

  -- The charge of a batch to the counter of an operation that is not undone yet, also not earlier
  -- in this batch.
  local function charges_of(op, batch)
    local known, found = answered_under(op.answer), {}
    local name = op.answer .. ' ' .. op.key
    batch.undone = batch.undone or {}
    if not batch.undone[name] then
      batch.undone[name] = op
      for _, made in ipairs(known and known.charges or NOTHING) do
        if made.key == KEYS[op.key] then found[#found + 1] = made end
      end
    end
    return found
  end

  -- Carries an operation out, or refuses it and changes nothing. Notes in `op` whether it was
  -- admitted, what it was decided on, and how many units it moved where that does not follow from
  -- the states.
  local function apply(record, op, batch)
    if op.of then return op.of.apply(record, op) end
    local n, kind, m = op.n, op.kind, op.n.m
    local viewed = n.viewed
    local a, b, c, next_a, next_b, next_c, view
    op.before_blocked = record.blocked
    if viewed then
      view = view_under(record, op)
      if kind == ACQUIRE and m.holds(view, op.holder) then
        -- A permit that was granted stays through a block.
        op.admitted = true
      elseif kind <= PEEK or kind == ACQUIRE then
        local fits, wait = m.decide(n, view, op.units)
        op.before_a = wait or 0
        op.admitted = fits and record.blocked <= now
      end
      op.units_moved = 0
    else
      a, b, c = under(record, n, op.keeps_instant)
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
      record.blocked_for = lasts and min(op.until_us - now, BLOCK_MAX) or BLOCK_MAX
    elseif kind == UNDO then
      local charges = charges_of(op, batch)
      -- The units that an undo gives back follow from the states before and after, under the same
      -- numbers.
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
          units = units + undo(record, made, op, counts)
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
          -- An instant ahead of a clock that stepped back may lie further ahead than the new
          -- window.
          if n.algorithm == ROLLING then m.bring_back(n, record.view) end
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
          record.c = max(record.c, now)
          if units > 0 then made = { kind = 3, holder = op.holder } end
        else
          units = m.release(view, op.holder)
        end
        if at and units > 0 then made = { kind = 2, at = at, units = units } end
        op.units_moved = units
      elseif kind == REFUND then
        record.a, record.b, record.c = m.refund(n, a, b, c, op.units, op)
      else
        local units, ticks_h, ticks_l = op.units, op.ticks_h, op.ticks_l
        if kind == REPORT then
          next_a, next_b, next_c, units, ticks_h, ticks_l = m.charge(n, a, b, c, op)
          op.units_moved = units
        end
        record.a, record.b, record.c = next_a, next_b, next_c
        if units > 0 then
          made = {
            kind = 1, spec = n.spec, before_a = a, before_b = b, before_c = c, after_a = next_a, after_b = next_b,
            after_c = next_c, units = units, ticks_h = ticks_h, ticks_l = ticks_l, key = false, origin = false, was = false,
          }
        end
      end
      record.changed = true
      if made then
        made.key, made.origin, made.was = KEYS[op.key], record.origin, was
        if batch.charges == NOTHING then batch.charges = { made } else batch.charges[#batch.charges + 1] = made end
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

  -- The answer to an operation: whether it was admitted, the counter as it is now, and further
  -- values to derive the rest.
  local function outcome(record, op, refused)
    if op.of then return op.of.outcome(record, op, refused) end
    local n, a, b, c = op.n, 0, 0, 0
    if n.viewed then
      a, b = n.m.usage(n, view_under(record, op))
    else
      a, b, c = under(record, n, op.keeps_instant)
    end
    local blocked, units = record.blocked, op.units_moved
    if blocked <= now then blocked = 0 end
    local flags = op.admitted and 1 or 0
    if op.admitted and op.kind <= PEEK and (refused or not units) then return pack('>Bdddd', flags, a, b, c, blocked) end
    if not op.admitted or op.kind == REFUND or op.kind == UNDO then flags = flags + 2 end
    if units and not refused then flags = flags + 4 end
    local bytes = pack('>Bdddd', flags, a, b, c, blocked)
    if flags % 4 >= 2 then
      blocked = op.before_blocked
      if blocked <= now then blocked = 0 end
      bytes = bytes .. pack('>dddd', op.before_a, op.before_b, op.before_c, blocked)
    end
    if flags >= 4 then bytes = bytes .. pack('>d', units) end
    return bytes
  end

  -- One batch. Its answer.
  local function carry_out(bytes)
    local mode, answer_key, fingerprint, id, count, note_count, at = read('>BI2c8c16BB', bytes)
    if answer_key > 0 then
      local known = answered_under(answer_key)
      if known then
        if known.fingerprint ~= fingerprint then return ID_REUSED end
        return known.answer
      end
    end
    local batch = { id = id, charges = NOTHING, undone = false }
    local forestalls = mode == FORESTALL
    if forestalls then mode = EACH end

    for index = 1, count do
      local layout
      ops[index], at = read_operation(bytes, at)
      local op = ops[index]
      at_operation, at_key = index - 1, op.key
      if unreadable and unreadable[op.key] then return pack('>BBB', UNREADABLE, index - 1, unreadable[op.key]) end
      if op.of then records[index], layout = op.of.record(op) else records[index], layout = counter(op) end
      if layout then return pack('>BBB', OTHER_LAYOUT, index - 1, layout) end
    end
    local changes = note_count > 0 and notes().read(bytes, at, note_count)
    for index, change in ipairs(changes or NOTHING) do
      at_operation, at_key = count + index - 1, change.place
      notes().look(change)
    end
    is_applying = true

    local saved = (note_count > 0 or mode == TRY or (mode == ALL_OR_NOTHING and count > 1)) and {}
    local refused = false
    for index = 1, count do
      local op, record = ops[index], records[index]
      at_operation, at_key = index - 1, op.key
      if saved and not saved[record] then saved[record] = snapshot(record) end
      apply(record, op, batch)
      if mode ~= EACH and not op.admitted and op.shadow == 0 and op.kind ~= PEEK then refused = true end
      if not refused and mode ~= TRY then outcomes[index] = outcome(record, op, false) end
    end
    refused = refused or (changes and notes().refuse(changes, mode ~= TRY))
    local leaves_nothing = refused or mode == TRY
    if leaves_nothing then
      for record, before in pairs(saved or NOTHING) do restore(record, before) end
      for index = 1, count do outcomes[index] = outcome(records[index], ops[index], true) end
      batch.charges = NOTHING
    end

    local answer = pack('>BBdB', ANSWER, refused and 1 or 0, now, count) .. concat(outcomes, '', 1, count)
    if not leaves_nothing then
      for _, op in pairs(batch.undone or NOTHING) do
        local known, kept = answered_under(op.answer), {}
        if forestalls and not known then
          -- The undo has overtaken its batch, which then meets a foreign answer and charges
          -- nothing.
          answered[op.answer] =
            { fingerprint = NO_BATCH, answer = '', charges = {}, changed = true, new = true }
        end
        if known and #known.charges > 0 then
          for _, made in ipairs(known.charges) do
            if made.key ~= KEYS[op.key] then kept[#kept + 1] = made end
          end
          known.charges, known.changed = kept, true
        end
      end
      if changes then answer = answer .. notes().change(changes) end
    end
    if answer_key > 0 then
      answered[answer_key] =
        { fingerprint = fingerprint, answer = answer, charges = batch.charges, changed = true, new = true }
    end
    return answer
  end

  general_made = { carry_out = carry_out, save_answer = save_answer }
  return general_made
end
