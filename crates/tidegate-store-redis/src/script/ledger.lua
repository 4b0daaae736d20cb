-- Ledgers of leased limits: what is used of a key, and who holds which part of it. Each step is
-- that of `tidegate_core::lease::Ledger`, where the reasons stand, to the unit. The page
-- docs/internals/leases.md says how each product stays below 2^53. In the code `n` are the terms of
-- a limit, `g` is a record.

-- Made when a call has an operation on one, as the algorithms are.
local ledgers_made
local function ledgers()
  if ledgers_made then return ledgers_made end
  local m, known, records = { now = now, big = big, HOLDERS_MAX = 256, SPACING = 100000, RECHECK = 800000 }, {}, {}
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
  local pack, read, call, byte, concat = struct.pack, struct.unpack, redis.call, string.byte, table.concat
  local LEDGER_BUCKET, LEDGER_CALENDAR = 7, 9
  local LAYOUT, U32_MAX = 1, 4294967295
  local HEAD, HEAD_BYTES = '>BBI4dddddddI4d', 74
  local LEASE, LEASE_BYTES = '>c12I4I4I4I4I4dI4ddI4I4I4', 72

  -- Reads the bytes of a limit, with the window that lasts now.
  local function numbers(spec, window)
    local n = known[spec]
    if n then return n end
    local at
    n = { spec = spec, units = 0, per_us = 1, quota = 0, unleased = 0, starts = 0, ends = 0, next_ends = 0, drain = 0 }
    n.kind, n.is_quota, n.limit, n.deepest, n.period_us, n.lent_max, n.leased_min, at = read('>BBddddd', spec)
    if n.kind == LEDGER_BUCKET then
      n.units, n.per_us, n.quota, n.unleased = read('>dddd', spec, at)
      local parts = n.limit * n.per_us
      if parts < 9007199254740992 then
        n.drain = ceil(parts / n.units)
      else
        local wide = m.big()
        n.drain = wide.about(wide.over(wide.times(wide.of(n.limit), wide.of(n.per_us)), wide.of(n.units)))
      end
    elseif n.kind == LEDGER_CALENDAR then
      n.starts, n.ends, n.next_ends = windows[window][3], windows[window][2], windows[window][5]
    else
      local length, first_hit = read('>dB', spec, at)
      n.starts = first_hit == 1 and max(0, now - length) or floor(now / length) * length
      n.ends = first_hit == 1 and now + length or n.starts + length
      n.next_ends = n.ends + length
    end
    known[spec] = n
    return n
  end

  function m.read_operation(bytes, at, kind, key, spec, window)
    local op = { of = m, kind = kind, key = key, n = numbers(ARGV[3 + spec], window), shadow = 0, admitted = true, units = 0, moved = 0, is_leaving = false }
    if kind == ASK then
      local flags
      op.holder, op.seq, op.acked, op.epoch, op.left, op.returned, op.unused, op.demand, op.need, op.need_min, flags, at =
        read('>c12I4I4I4I4I4I4I4ddB', bytes, at)
      op.is_leaving, op.gives_up = flags % 2 == 1, floor(flags / 2) % 2 == 1
      if flags >= 4 then op.lifetime, at = read('>d', bytes, at) end
    elseif kind == LEDGER_REPORT or kind == LEDGER_REFUND then
      op.units, at = read('>d', bytes, at)
    end
    return op, at
  end

  -- Takes what is kept for the record; nothing is a record of no epoch. Leases know where their
  -- bytes stand in `raw`.
  local function load(g, bytes)
    g.epoch, g.leases = 0, {}
    if not bytes then return end
    local _
    _, g.kind, g.epoch, g.used, g.rest, g.dust, g.per_us, g.period_us, g.at, g.ends, g.spent, g.crowded = read(HEAD, bytes)
    local count, is_raw = 0, bytes == g.raw
    for at = HEAD_BYTES + 1, #bytes, LEASE_BYTES do
      local holder, seq, demand, held, lump, rate, ends, prior_rate, prior_ends, since, returned, unused, spent =
        read(LEASE, bytes, at)
      count = count + 1
      g.leases[count] = {
        holder = holder, seq = seq, demand = demand, held = held, lump = lump, rate = rate, ends = ends,
        prior_rate = prior_rate, prior_ends = prior_ends, since = since, returned = returned, unused = unused, spent = spent,
        place = is_raw and at,
      }
    end
  end

  -- The record as bytes. Unchanged parts are copied as they are.
  local function bytes_of(g)
    if g.epoch == 0 then return false end
    local parts = {
      pack(HEAD, LAYOUT, g.kind, g.epoch, g.used, g.rest, g.dust, g.per_us, g.period_us, g.at, g.ends, g.spent, g.crowded),
    }
    local from, to
    for _, lease in ipairs(g.leases) do
      local place = lease.place
      if from and place ~= to + 1 then
        parts[#parts + 1] = string.sub(g.raw, from, to)
        from = nil
      end
      if place then
        from, to = from or place, place + LEASE_BYTES - 1
      else
        parts[#parts + 1] = pack(LEASE, lease.holder, lease.seq, lease.demand, lease.held, lease.lump, lease.rate,
          lease.ends, lease.prior_rate, lease.prior_ends, lease.since, lease.returned, lease.unused, lease.spent)
      end
    end
    if from then parts[#parts + 1] = string.sub(g.raw, from, to) end
    return concat(parts)
  end

  -- The record of an operation, or the layout that it has and this script does not know.
  function m.record(op)
    local g = records[op.key]
    if g then return g end
    local raw = call('GET', KEYS[op.key])
    local layout = raw and byte(raw)
    if raw and layout ~= LAYOUT then
      if not layout or layout > LAYOUT_MAX then error('the record has no layout') end
      return nil, layout
    end
    g = { of = m, raw = raw, changed = false }
    load(g, raw)
    records[op.key] = g
    return g
  end

  -- Forgets what this call has decided.
  function m.reset() records = {} end

  function m.snapshot(g)
    local bytes = g.raw
    if g.changed then bytes = bytes_of(g) end
    return { bytes = bytes, changed = g.changed, n = g.n }
  end

  function m.restore(g, saved)
    g.changed, g.n = saved.changed, saved.n
    load(g, saved.bytes)
  end

  -- A record of this epoch under these terms. Limits of another kind have nothing in common.
  local function bring_up(g, n)
    if g.epoch ~= epoch_number or g.kind ~= n.kind then
      g.kind, g.epoch, g.rest, g.dust, g.per_us, g.period_us = n.kind, epoch_number, 0, 0, n.per_us, n.period_us
      g.used, g.at, g.ends, g.spent, g.crowded, g.leases = 0, epoch_began, n.ends, 0, 0, {}
    end
    if n.per_us ~= g.per_us then g.rest, g.per_us = 0, n.per_us end
    if n.period_us ~= g.period_us then
      local whole = floor(n.period_us / g.period_us)
      local rest = n.period_us - whole * g.period_us
      for _, lease in ipairs(g.leases) do
        lease.place = false
        lease.rate = min(U32_MAX, lease.rate * whole + ceil(lease.rate * rest / g.period_us))
        lease.prior_rate = min(U32_MAX, lease.prior_rate * whole + ceil(lease.prior_rate * rest / g.period_us))
      end
      g.dust, g.period_us = 0, n.period_us
    end
    -- Too far ahead, as after a clock that was wrong: a bucket is used up now, a window is that of
    -- now. Leases end; what their holders have in hand stays theirs, and counts as used.
    local is_bucket = n.kind == LEDGER_BUCKET
    if is_bucket and g.at > now + n.drain then
      if g.used > 0 or #g.leases > 0 then g.used = n.limit end
      g.rest, g.dust, g.at, g.leases, g.crowded = 0, 0, now, {}, 0
    elseif not is_bucket and g.ends > n.next_ends then
      g.ends, g.leases, g.crowded = n.ends, {}, 0
    end
  end

  function m.credit(g, units) g.used = g.used - min(units, g.used) end

  -- Drops remainders that would bring what is used below `least`.
  function m.drop_parts(g, least)
    local above = g.used - least
    if above <= 1 then g.dust = 0 end
    if above <= 0 then g.rest = 0 end
  end

  -- Credits units that count as spent and never were, but not below what was spent since and is in
  -- hand.
  function m.credit_spent(g, units, least)
    m.credit(g, min(units, max(0, g.used - least)))
    m.drop_parts(g, least)
  end

  -- Tokens for the requests that wait, of those that are free: none where there are too few for the
  -- first.
  function m.needed(ask, left, free)
    if ask.need_min > left + free then return 0 end
    return min(max(0, ask.need - left), free)
  end

  -- Where the lease of a holder belongs.
  local function insert(leases, lease)
    local a, b, c = read('>I4I4I4', lease.holder)
    local place = #leases + 1
    while place > 1 do
      local x, y, z = read('>I4I4I4', leases[place - 1].holder)
      if x < a or (x == a and (y < b or (y == b and z < c))) then break end
      place = place - 1
    end
    table.insert(leases, place, lease)
  end

  -- A lease of nothing that takes the holder's totals as they are.
  function m.begin_lease(g, ask, since)
    local lease = {
      holder = ask.holder, seq = 0, demand = 0, held = 0, lump = 0, rate = 0, ends = 0, prior_rate = 0, prior_ends = 0,
      since = since, returned = ask.returned, unused = ask.unused, spent = g.spent, place = false,
    }
    insert(g.leases, lease)
    return lease
  end

  function m.remove(g, lease)
    for place, other in ipairs(g.leases) do
      if other == lease then return table.remove(g.leases, place) end
    end
  end

  function m.headroom(demand) return demand + floor(demand / 4) end

  local GRANT = '>BI4I4I4I4I4dI4I4Bdd'
  function m.grant(g, ask, lump, held, rate, ttl, keep, members, is_scarce, again, gone)
    return pack(GRANT, 1, ask.seq, g.epoch, lump, held, rate, ttl, min(keep, U32_MAX), members, is_scarce and 1 or 0, again,
      gone or 0)
  end

  -- An answer without tokens, and one to an ask that was answered before: none if a later one was.
  function m.nothing(g, ask, again)
    return m.grant(g, ask, 0, 0, 0, 0, 0, max(#g.leases, 1), true, max(again, m.SPACING))
  end

  function m.repeated(g, lease, ask)
    local ttl = max(0, lease.ends - now)
    if ask.seq ~= lease.seq or ttl == 0 then return nil end
    return m.grant(g, ask, lease.lump, lease.held, lease.rate, ttl, 0, max(#g.leases, 1), true, m.SPACING), lease.lump
  end

  -- Until when it matters that the store has lost what was used.
  local function lost_until(n)
    if not is_after_loss or n.is_quota == 0 then return 0 end
    if n.kind ~= LEDGER_BUCKET then return epoch_began >= n.starts and n.ends or 0 end
    -- Begun later than that: the clock had been ahead.
    if epoch_began > now + n.drain then return 0 end
    return epoch_began + n.drain
  end

  local kinds = {}
  local function kind_of(n)
    local is_bucket = n.kind == LEDGER_BUCKET
    local kind = kinds[is_bucket]
    if not kind then
      kind = (is_bucket and bucket_ledger or window_ledger)(m)
      kinds[is_bucket] = kind
    end
    return kind
  end

  -- Units used now, without what is yet to trickle in, and about when none will be, changing
  -- nothing.
  local function look(g, n)
    local saved = m.snapshot(g)
    bring_up(g, n)
    local kind = kind_of(n)
    local _, _, parts = kind.step(g, n)
    local used, free_at = kind.level(g, n, parts)
    m.restore(g, saved)
    return used, free_at
  end

  -- Carries an operation out; notes in `op` what was granted or moved.
  function m.apply(g, op)
    local n, kind = op.n, op.kind
    if kind == LOOK then return end
    g.n, g.changed = n, true
    bring_up(g, n)
    local of, parts = kind_of(n), 0
    if kind == ASK then
      if not op.is_leaving and now < lost_until(n) then
        op.grant = pack(GRANT, 1, op.seq, epoch_number, 0, 0, 0, 0, 0, 1, 3, m.RECHECK, 0)
        return
      end
      op.grant, op.moved, parts = of.ask(g, n, op)
    else
      local outstanding, coming
      outstanding, coming, parts = of.step(g, n)
      if kind == LEDGER_REPORT then
        op.moved = min(op.units, max(0, n.deepest - max(0, g.used - coming)))
        g.used = g.used + op.moved
      else
        op.moved = max(0, g.used - outstanding)
        if kind == LEDGER_REFUND then op.moved = min(op.moved, op.units) end
        m.credit(g, op.moved)
        m.drop_parts(g, outstanding)
      end
    end
    -- Each of them but one has seen to it that no less is used than may still be spent.
    if not op.is_leaving then op.used, op.free_at = of.level(g, n, parts or 0) end
  end

  -- The answer to an operation: units moved, units used, about when none will be; and the grant of
  -- an ask.
  function m.outcome(g, op, refused)
    local used, free_at = op.used, op.free_at
    if refused or not used then used, free_at = look(g, op.n) end
    local bytes = pack('>ddd', not refused and op.moved or 0, used, free_at)
    if op.kind ~= ASK then return bytes end
    return bytes .. (not refused and op.grant or '\0')
  end

  function m.save_all()
    for index, g in pairs(records) do
      if g.changed then
        local bytes = bytes_of(g)
        local ms = ceil(max(0, kind_of(g.n).forgettable_at(g, g.n) - now) / 1000) + MARGIN_MS
        if given ~= 0 or ms > MS_MAX then
          call('SET', KEYS[index], bytes)
        else
          call('SET', KEYS[index], bytes, 'PX', ms)
        end
      end
    end
  end

  ledgers_made = m
  return m
end
