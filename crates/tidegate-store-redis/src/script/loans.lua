-- Lending: a bucket's ledger, and a window's. Each is made when a call first needs it, with the
-- parts that ledgers share. Of all leases but that of the holder that asks only sums count, so each
-- ask goes through them once.
--
-- Whatever a function of the script takes from around it is looked up in every call, whether or not
-- the function is called. So these take nothing: what they need is a part of `m`, or of the
-- language.

local function bucket_ledger(m)
  local k, now, floor, ceil, max, min, fmod = {}, m.now, math.floor, math.ceil, math.max, math.min, math.fmod
  local T32, T53 = 4294967296, 9007199254740992
  local AGAIN, TRICKLE_MIN, SHORTEST, DEPTH, SHARE_BITS, PREFETCH, FREE_PART = 16, 4, 3, 100000, 22, 8, 64
  local SPOT_AGAIN, SPOT_TURNS, UNLEASED_PART, REPLACED_AFTER = 4, 8, 64, 6000000

  -- The most units that are yet to trickle in after `from`, in parts of a token by the period.
  local function to_come(lease, from)
    local first, last = min(lease.ends, lease.prior_ends), max(lease.ends, lease.prior_ends)
    local alone = lease.ends >= lease.prior_ends and lease.rate or lease.prior_rate
    return max(lease.rate, lease.prior_rate) * max(0, first - from) + alone * max(0, last - max(from, first))
  end

  local function in_hand(lease)
    return max(lease.ends, lease.prior_ends) > now and lease.held or 0
  end

  -- How many units drain in `elapsed`, more than `used` if all do, and the rest.
  local function drains(elapsed, units, per_us, rest, used)
    local over = fmod(elapsed, per_us)
    local whole = (elapsed - over) / per_us
    local drained = whole * units
    if whole > 0 and drained >= used then return drained, 0 end
    local product = over * units + rest
    if product < T53 then
      rest = fmod(product, per_us)
      return drained + (product - rest) / per_us, rest
    end
    -- As on paper, eight bits of the units at a time, the highest first. `per_us` is below 2^45.
    local quotient, remainder = 0, 0
    for place = 6, 0, -1 do
      local digit = floor(units / 256 ^ place) % 256
      local shifted, partial = remainder * 256, over * digit
      local above, below = fmod(shifted, per_us), fmod(partial, per_us)
      quotient = quotient * 256 + (shifted - above) / per_us + (partial - below) / per_us
      remainder = above + below
      if remainder >= per_us then quotient, remainder = quotient + 1, remainder - per_us end
    end
    remainder = remainder + rest
    if remainder >= per_us then quotient, remainder = quotient + 1, remainder - per_us end
    return drained + quotient, remainder
  end

  -- Nothing drains below what holders may still spend.
  local function hold_up(g, least)
    if g.used < least then g.used = least end
    m.drop_parts(g, least)
  end

  local function drain_until(g, n, at)
    local elapsed = at - g.at
    if elapsed > 0 then
      local drained, rest = drains(elapsed, n.units, n.per_us, g.rest, g.used)
      g.at = at
      if drained >= g.used then g.used, g.rest = 0, 0 else g.used, g.rest = g.used - drained, rest end
    end
  end

  -- Units in hand when a lease ended held `used` up until then, though no call looked. Where
  -- several have ended all of it did until the last, which is never too little.
  local function hold_up_ended(g, n)
    local last = false
    for _, lease in ipairs(g.leases) do
      local ends = max(lease.ends, lease.prior_ends)
      if ends <= now and (not last or ends > last) then last = ends end
    end
    if not last then return end
    drain_until(g, n, last)
    local parts, held, from = 0, 0, max(last, g.at)
    for _, lease in ipairs(g.leases) do parts, held = parts + to_come(lease, from), held + lease.held end
    hold_up(g, ceil(parts / g.period_us) + held)
  end

  -- Drains to now, drops leases that have ended, and sums up all but that of `holder`, which is
  -- `sums.own`.
  local function drain(g, n, holder)
    hold_up_ended(g, n)
    drain_until(g, n, now)
    local sums = { own = false, to_come = 0, in_hand = 0, fastest = 0, members = 1, demand = 0 }
    local leases, paid, count, kept = g.leases, g.at, #g.leases, 0
    if paid < now then paid = now end
    for place = 1, count do
      local lease = leases[place]
      if lease.ends <= now and lease.prior_ends <= now then
        g.spent = (g.spent + lease.held) % T32
      else
        kept = kept + 1
        if kept ~= place then leases[kept] = lease end
        if lease.holder == holder then
          sums.own = lease
        else
          local last = lease.ends > now and lease.rate or 0
          local prior = lease.prior_ends > now and lease.prior_rate or 0
          sums.to_come = sums.to_come + to_come(lease, paid)
          sums.in_hand = sums.in_hand + lease.held
          sums.fastest = sums.fastest + max(last, prior)
          sums.members = sums.members + 1
          sums.demand = sums.demand + lease.demand
        end
      end
    end
    for place = kept + 1, count do leases[place] = nil end
    local own = sums.own
    local parts, held = sums.to_come, sums.in_hand
    if own then parts, held = parts + to_come(own, paid), held + own.held end
    sums.coming = ceil(parts / g.period_us)
    sums.least = sums.coming + held
    hold_up(g, sums.least)
    return sums, paid
  end

  -- Brings the record to now. Returns the units that holders may still spend, those yet to come,
  -- and the latter in parts.
  function k.step(g, n)
    local sums = drain(g, n, false)
    return sums.least, sums.coming, sums.to_come
  end

  -- Units used, of which so many parts are yet to come and do not count, and about when none will
  -- be.
  function k.level(g, n, coming)
    local used = max(0, g.used - floor((coming + g.dust) / g.period_us))
    if used == 0 then return 0, now end
    local parts = used * n.per_us - g.rest
    if parts < T53 then return used, g.at + ceil(parts / n.units) end
    local wide = m.big()
    parts = wide.minus(wide.times(wide.of(used), wide.of(n.per_us)), wide.of(g.rest))
    return used, g.at + wide.about(wide.over(parts, wide.of(n.units)))
  end

  -- When an absent record would say the same at the latest.
  function k.forgettable_at(g, n)
    local last, ends, held = max(g.crowded, g.at + g.used * n.per_us / n.units), 0, 0
    for _, lease in ipairs(g.leases) do
      ends, held = max(ends, lease.ends, lease.prior_ends), held + lease.held
    end
    -- Units in hand may be spent when the last lease ends, and drain from there on.
    return max(last, ends + held * n.per_us / n.units)
  end

  -- Debits and credits so many parts of a token by the period, exactly.
  local function debit_parts(g, parts)
    if parts > g.dust then
      local units = ceil((parts - g.dust) / g.period_us)
      g.dust = g.dust + units * g.period_us
      g.used = g.used + units
    end
    g.dust = g.dust - min(parts, g.dust)
  end

  local function credit_parts(g, parts)
    parts = parts + g.dust
    g.dust = fmod(parts, g.period_us)
    m.credit(g, (parts - g.dust) / g.period_us)
  end

  -- The remainder of the burst; `parts` are to come of those that are debited.
  local function free(g, n, parts) return max(0, n.limit + floor(parts / g.period_us) - g.used) end

  -- Takes over what the holder says about its lease, which ends with this.
  local function settle(g, sums, paid, lease, ask)
    local coming = to_come(lease, paid)
    local released = floor(max(0, to_come(lease, lease.since) - coming) / g.period_us)
    lease.place = false
    credit_parts(g, coming)
    local is_acked = ask.acked == lease.seq and ask.acked > 0 and ask.epoch == g.epoch
    if lease.lump > lease.held then
      -- It was only for requests that waited, and took the place of no lease.
      if not is_acked then
        local spent = max(0, (g.spent - lease.spent) % T32 - lease.lump)
        m.credit_spent(g, lease.lump, ceil(sums.to_come / g.period_us) + sums.in_hand + lease.held + spent)
      end
    elseif is_acked then
      lease.prior_rate, lease.prior_ends = lease.rate, lease.ends
    else
      m.credit(g, lease.lump)
      lease.held = lease.held - lease.lump
    end
    if ask.gives_up then lease.prior_rate = 0 end
    lease.rate, lease.ends, lease.lump = 0, 0, 0

    -- Units in hand held `used` up all the time, so units that come back are credited as they are.
    local gone = max(0, lease.held - ask.left)
    local returned = min((ask.returned - lease.returned) % T32, gone)
    m.credit(g, returned)
    g.spent = (g.spent + gone - returned) % T32
    lease.held = min(ask.left, lease.held)

    local unused = min((ask.unused - lease.unused) % T32, released)
    lease.returned, lease.unused = ask.returned, ask.unused
    local spent = (g.spent - lease.spent) % T32
    local least = ceil(sums.to_come / g.period_us) + sums.in_hand + lease.held + spent
    m.credit(g, min(unused, max(0, g.used - least)))
    if unused > 0 then m.drop_parts(g, least) end
  end

  local function part(whole, demand, total)
    local _, bits = math.frexp(total)
    local scale = 2 ^ max(0, bits - SHARE_BITS)
    local over = floor(total / scale)
    if over == 0 then return 0 end
    return floor(whole * floor(demand / scale) / over)
  end

  local function is_too_slow(n, rate) return rate * DEPTH < n.period_us end

  -- By which power of two a lease is shorter than a period.
  local function shorter_by(n, lease, ask)
    local given = lease.prior_rate > 0 and max(0, lease.prior_ends - lease.since) or 0
    local by_age = SHORTEST
    for shift = SHORTEST - 1, 0, -1 do
      if given >= floor(n.period_us / 2 ^ shift) then by_age = shift end
    end
    if given > 0 and max(0, now - lease.since) >= floor(given / 2) then by_age = max(0, by_age - 1) end
    local has_changed = floor(lease.demand / 2) > ask.demand or floor(ask.demand / 2) > lease.demand
    return max(by_age, has_changed and 2 or 0)
  end

  -- Forgets the demand of the other leases of a new remote holder's member: the peer has come back
  -- by another stream, and wants what it wants once. Whether there was any.
  local function count_once(g, ask)
    local member, found = ask.holder:sub(1, 8), {}
    for _, lease in ipairs(g.leases) do
      if lease.holder == ask.holder then return false end
      if lease.demand > 0 and lease.holder:sub(1, 8) == member then found[#found + 1] = lease end
    end
    for _, lease in ipairs(found) do lease.demand, lease.place = 0, false end
    return #found > 0
  end

  -- Lets a remote holder take over the leases of its member that were not renewed in time; whether
  -- there were any. Their tokens in hand count as spent, their rates count on in its own lease.
  local function replace(g, paid, ask)
    local leases, member, own = g.leases, ask.holder:sub(1, 8), false
    local count, kept, rate, ends, parts = #leases, 0, 0, 0, 0
    for place = 1, count do
      local lease = leases[place]
      local is_own = lease.holder == ask.holder
      if not is_own and lease.since + REPLACED_AFTER <= now and lease.holder:sub(1, 8) == member then
        local last = lease.ends > now and lease.rate or 0
        local prior = lease.prior_ends > now and lease.prior_rate or 0
        rate, ends = rate + max(last, prior), max(ends, lease.ends, lease.prior_ends)
        parts = parts + to_come(lease, paid)
        g.spent = (g.spent + lease.held) % T32
      else
        kept = kept + 1
        leases[kept] = lease
        if is_own then own = lease end
      end
    end
    if kept == count then return false end
    for place = kept + 1, count do leases[place] = nil end
    own = own or m.begin_lease(g, ask, paid)
    parts = parts + to_come(own, paid)
    if own.prior_rate == 0 or own.prior_ends <= now then own.prior_rate, own.prior_ends = 0, 0 end
    own.prior_rate, own.prior_ends = max(own.prior_rate, min(rate, T32 - 1)), max(own.prior_ends, ends)
    own.place = false
    -- Two rates until two ends count for more than was debited, and two for one peer for less.
    local more = to_come(own, paid) - parts
    if more > 0 then debit_parts(g, more) else credit_parts(g, -more) end
    return true
  end

  -- The tokens from the burst for an ordinary holder: for waiting requests, and those worth having
  -- ahead.
  local function lump_of(n, ask, left, left_over, members, rate, is_cold, is_settled)
    local demand, soon = ask.demand, 0
    if ask.need > 0 then
      if members == 1 or not is_cold then soon = floor(demand / PREFETCH) end
      soon = max(soon, floor(left_over / FREE_PART))
    end
    local ahead = soon
    if not is_cold then ahead = max(soon, demand - rate, is_too_slow(n, rate) and 1 or 0) end
    -- Where all have their shares, what is left over is not worth an ask by each.
    local most = floor(left_over / (is_settled and 2 or members + 1))
    return max(min(max(0, ahead - left), most), m.needed(ask, left, left_over))
  end

  -- Gives the holder a new lease. A remote holder has asked for one of some lifetime.
  local function grant(g, n, sums, paid, lease, ask)
    local demand, need, members, lifetime = ask.demand, ask.need, sums.members, ask.lifetime
    local owed = max(0, g.used - n.limit - ceil(sums.to_come / g.period_us))
    local unleased = n.unleased
    if lifetime then unleased = min(max(floor(n.quota / UNLEASED_PART), 1), floor(n.quota / 2)) end
    local quota = max(0, n.quota - unleased - owed)
    local is_crowded = g.crowded > now
    if is_crowded then quota = floor(quota / 2) end
    local total = sums.demand + demand
    local wanted, share, is_cold = m.headroom(total), 0, not lifetime and demand < n.leased_min
    local is_scarce = wanted >= quota
    if not is_cold then
      if is_scarce then
        share = part(quota, demand, total)
      else
        local half = floor((quota - wanted) / 2)
        share = m.headroom(demand) + floor(half / (members + 1)) + part(half, demand, total)
      end
    end
    if is_crowded then share = min(share, m.headroom(demand)) end
    local rate = min(share, max(0, quota - sums.fastest))

    local left, left_over, keep = lease.held, free(g, n, sums.to_come), floor(n.limit / (members + 1))
    local shorter = lifetime and 0 or shorter_by(n, lease, ask)
    local lump
    if lifetime then
      lump = min(max(0, min(need, max(keep, 1)) - left), left_over)
    else
      lump = lump_of(n, ask, left, left_over, members, rate, is_cold, is_scarce and shorter == 0)
    end
    lump = min(lump, max(0, n.lent_max - left))

    local is_worthless = floor(rate / 2 ^ shorter) < TRICKLE_MIN or (left + lump == 0 and is_too_slow(n, rate))
    if is_worthless and not lifetime then rate = 0 end
    -- Units for waiting requests are spent as soon as they are granted. Their holder is counted for
    -- a period all the same.
    local is_spot = is_cold and left == 0 and lump <= need
    local ttl = lifetime or floor(n.period_us / 2 ^ (is_spot and 0 or is_cold and 2 or shorter))
    hold_up(g, ceil(sums.to_come / g.period_us) + sums.in_hand + left)
    lease.rate, lease.ends, lease.seq, lease.demand, lease.place = rate, now + ttl, ask.seq, demand, false
    local coming = to_come(lease, paid)
    debit_parts(g, coming)
    g.used = g.used + lump
    lease.lump, lease.spent, lease.since = lump, g.spent, paid
    if is_spot then g.spent = (g.spent + lump) % T32 else lease.held = left + lump end
    local parts, had = sums.to_come + coming, left + lump
    hold_up(g, ceil(parts / g.period_us) + sums.in_hand + in_hand(lease))

    is_scarce = is_scarce and free(g, n, parts) <= min(floor(n.limit / AGAIN), floor(quota / AGAIN))
    local again = 0
    if rate + floor(share / 8) < share then
      again = shorter > 0 and m.SPACING or max(floor(n.period_us / AGAIN), m.SPACING)
    elseif lifetime and had > 0 then
      again = 0
    elseif need <= had then
      if rate > 0 and is_scarce and shorter == 0 then again = m.SPACING end
    else
      again = members > 1 and m.SPACING or m.RECHECK
    end
    return m.grant(g, ask, lump, lease.held, rate, ttl, keep, members, is_scarce, again), lump, parts
  end

  -- The answer to a holder that finds no place: what waits, to be spent at once and not recorded.
  local function spot(g, n, sums, ask)
    g.crowded = now + n.period_us
    local lump = m.needed(ask, 0, min(free(g, n, sums.to_come), n.lent_max))
    local fits = lump >= ask.need
    g.used = g.used + lump
    g.spent = (g.spent + lump) % T32
    -- Each for another time: there are more of them than are let in, and they should not all come
    -- back at once.
    local turn = (ask.holder:byte(8) + ask.holder:byte(12)) % SPOT_TURNS
    local again = fits and 0 or floor(n.period_us * (SPOT_AGAIN + turn) / 32)
    return m.grant(g, ask, lump, 0, 0, n.period_us, 0, max(#g.leases, 1), true, again), lump, sums.to_come
  end

  function k.ask(g, n, ask)
    local sums, paid = drain(g, n, ask.holder)
    if ask.lifetime and not ask.is_leaving then
      local counted_twice = count_once(g, ask)
      if replace(g, paid, ask) or counted_twice then sums = drain(g, n, ask.holder) end
    end
    local lease = sums.own
    if lease then
      if ask.seq <= lease.seq then
        local answer, lump = m.repeated(g, lease, ask)
        return answer, lump or 0, sums.to_come + to_come(lease, paid)
      end
      settle(g, sums, paid, lease, ask)
    elseif ask.is_leaving then
      return nil
    elseif #g.leases >= m.HOLDERS_MAX then
      return spot(g, n, sums, ask)
    else
      lease = m.begin_lease(g, ask, paid)
    end
    if ask.is_leaving then
      m.remove(g, lease)
      return m.nothing(g, ask, 0), 0
    end
    return grant(g, n, sums, paid, lease, ask)
  end

  return k
end

local function window_ledger(m)
  local k, now, floor, max, min, T32 = {}, m.now, math.floor, math.max, math.min, 4294967296
  local SHORTER, PREFETCH, FREE_PART, RECHECK_QUOTA = 16, 8, 64, 30000000

  -- Begins the window that lasts now, if the one that was counted has ended. Returns the units in
  -- hand, also of holders whose lease has ended, as they may say that it was not spent.
  function k.step(g, n)
    if now >= g.ends then g.leases, g.used, g.ends = {}, 0, max(n.ends, now + 1) end
    local held = 0
    for _, lease in ipairs(g.leases) do held = held + lease.held end
    return held, 0
  end

  function k.level(g) return g.used, g.used == 0 and now or g.ends end

  function k.forgettable_at(g, n) return g.ends end

  local function is_alive(lease) return lease.ends > now or lease.prior_ends > now end

  -- A place for a holder that has none, if need be that of the lease that ended first.
  local function place(g, ask)
    if #g.leases >= m.HOLDERS_MAX then
      local gone, gone_at
      for _, lease in ipairs(g.leases) do
        local ends = max(lease.ends, lease.prior_ends)
        if not gone or ends < gone_at or (ends == gone_at and lease.held < gone.held) then gone, gone_at = lease, ends end
      end
      if gone_at > now then return false end
      m.remove(g, gone)
    end
    return m.begin_lease(g, ask, now)
  end

  -- Takes over what the holder says about its tokens.
  local function settle(g, lease, ask)
    if ask.acked ~= lease.seq or ask.epoch ~= g.epoch then
      if lease.lump > lease.held then
        -- A reset may have forgotten it, and then what was spent since is not given back in its
        -- place.
        local held, spent = 0, max(0, (g.spent - lease.spent) % T32 - lease.lump)
        for _, other in ipairs(g.leases) do held = held + other.held end
        m.credit_spent(g, lease.lump, held + spent)
      else
        m.credit(g, lease.lump)
        lease.held = lease.held - lease.lump
      end
    end
    local gone = max(0, lease.held - ask.left)
    local returned = min((ask.returned - lease.returned) % T32, gone)
    m.credit(g, returned)
    g.spent = (g.spent + gone - returned) % T32
    lease.lump, lease.returned, lease.unused, lease.place = 0, ask.returned, ask.unused, false
    lease.held = min(ask.left, lease.held)
  end

  local function grant(g, n, own, ask)
    local members, total, others_hold, others_spend, gone = 1, ask.demand, false, false, 0
    for _, lease in ipairs(g.leases) do
      if lease ~= own then
        local alive = is_alive(lease)
        if alive then members, total = members + 1, total + lease.demand else gone = gone + lease.held end
        if lease.held > 0 then others_hold, others_spend = true, others_spend or alive end
      end
    end
    local need, free = ask.need, max(0, n.limit - g.used)
    local half = floor(free / (2 * members))
    local share = max(half, 1)
    local left = own and own.held or 0
    local is_cold, ahead = ask.demand < n.leased_min, 0
    if not is_cold then
      ahead = m.headroom(ask.demand)
    elseif need > 0 then
      ahead = max(members == 1 and floor(ask.demand / PREFETCH) or 0, floor(free / FREE_PART))
    end
    local most = min(max(0, n.lent_max - left), free)
    local lump = min(max(min(max(0, ahead - left), need > 0 and share or half), m.needed(ask, left, free)), most)
    if not own then lump = m.needed(ask, 0, most) end
    -- Units for waiting requests are spent as soon as they are granted.
    local is_spot = is_cold and left == 0 and lump <= need and own
    local is_scarce = free - lump < 2 * m.headroom(total)
    local ttl = min(is_scarce and floor(n.period_us / SHORTER) or n.period_us, g.ends - now)
    g.used = g.used + lump
    local again = 0
    if lump + left < need then
      again = m.RECHECK
      if not others_hold and n.is_quota == 1 then
        again = RECHECK_QUOTA
      elseif others_spend then
        again = m.SPACING
      end
      again = max(min(again, g.ends - now), m.SPACING)
    end
    local held = 0
    if own then
      own.prior_rate, own.prior_ends = 0, max(own.ends, own.prior_ends)
      own.lump, own.seq, own.demand, own.place = lump, ask.seq, ask.demand, false
      own.ends, own.since, own.spent = now + ttl, now, g.spent
      if is_spot then g.spent = (g.spent + lump) % T32 else own.held = own.held + lump end
      held = own.held
    end
    return m.grant(g, ask, lump, held, 0, ttl, share, members, is_scarce, again, gone), lump
  end

  function k.ask(g, n, ask)
    if now >= g.ends then k.step(g, n) end
    local own = false
    for _, lease in ipairs(g.leases) do
      if lease.holder == ask.holder then own = lease end
    end
    if own then
      if ask.seq <= own.seq then return m.repeated(g, own, ask) end
      settle(g, own, ask)
    elseif ask.is_leaving then
      return nil
    else
      own = place(g, ask)
    end
    if ask.is_leaving then
      m.remove(g, own)
      return m.nothing(g, ask, 0), 0
    end
    return grant(g, n, own, ask)
  end

  return k
end
