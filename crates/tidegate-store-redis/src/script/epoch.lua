-- The marker of the epoch: `<id>.<number>.<began>.<flag>.<protocol>`, and `.<acknowledged>` after
-- an acknowledgement.
--
--   id            the life of the store; a loss is recognised by it alone
--   number        the epoch that ledgers count in; it grows only when data was lost
--   began         when the epoch began, in microseconds
--   flag          1 if a living member noticed a loss at its beginning and the loss is not
--                 acknowledged
--   protocol      the lease protocol of the members; a higher one stops this member, a lower one is
--                 raised in place
--   acknowledged  losses that began at this instant or before it are acknowledged, in microseconds
--
-- Earlier versions wrote four parts, or only the id: protocol 1, and for an id alone number 1,
-- begun in 1970.
local function read_marker(bytes)
  local id, number, began, flag, rest = string.match(bytes, '^([^.]*)%.(%d+)%.(%d+)%.([01])(.*)$')
  if not id then return { id = bytes, number = 1, began = 0, flag = 0, protocol = 1, acknowledged = 0 } end
  local spoken, until_us = string.match(rest, '^%.(%d+)%.?(%d*)')
  return {
    id = id, number = tonumber(number), began = tonumber(began), flag = tonumber(flag),
    protocol = tonumber(spoken) or 1, acknowledged = tonumber(until_us) or 0,
  }
end

-- The marker that counts in this call, and its epoch as ledgers need it.
local marker = call('GET', KEYS[1])
local epoch_number, epoch_began, is_after_loss = seen_number, seen_began, seen_flag == 1
if marker ~= ARGV[2] or acknowledges == 1 then
  local epoch = read_marker(marker or ARGV[3])
  if marker and epoch.protocol > protocol then
    -- The records may be written by rules that this member does not know: it decides nothing here.
    return { NEWER_PROTOCOL, now, marker, epoch.protocol }
  end
  local found, seen, is_lost = marker, ARGV[2] ~= '' and read_marker(ARGV[2]), false
  local number_now = max(1, floor(now / 1000000))
  local function begin_epoch(id, number, flag)
    epoch = { id = id, number = min(number, T32 - 1), began = now, flag = flag, acknowledged = 0 }
  end

  if not found and not seen then
    -- A new store. A slot of a cluster is as old as the rest of it: then the marker to write says
    -- when that began.
    if epoch.id == ARGV[3] then begin_epoch(epoch.id, number_now, 0) end
  elseif not found then
    is_lost = true
    begin_epoch(epoch.id, max(seen.number, number_now) + 1, 1)
  elseif seen and epoch.id ~= seen.id then
    is_lost = true
    if epoch.number > seen.number then
      -- Another member has begun this epoch. One that had just started could not tell the wiped
      -- store from a new one.
      epoch.flag = 1
    else
      begin_epoch(epoch.id, max(epoch.number, seen.number, number_now) + 1, 1)
    end
  elseif seen and epoch.number < seen.number then
    -- A failover has brought an earlier epoch back, and holders do not obey an epoch that has
    -- passed.
    epoch = seen
  end

  -- An acknowledgement counts for every loss that began before it, whichever member noticed the
  -- loss.
  local acknowledged = max(epoch.acknowledged, acknowledged_until)
  if epoch.flag == 1 and epoch.began <= acknowledged then epoch.flag = 0 end
  if epoch.flag == 0 and epoch.began <= acknowledged or remembers == 1 then epoch.acknowledged = acknowledged end
  marker = epoch.id .. string.format('.%.0f.%.0f.%.0f.%.0f', epoch.number, epoch.began, epoch.flag, protocol)
  if epoch.acknowledged > 0 then marker = marker .. string.format('.%.0f', epoch.acknowledged) end
  if marker ~= found then call('SET', KEYS[1], marker) end
  epoch_number, epoch_began, is_after_loss = epoch.number, epoch.began, epoch.flag == 1
  -- The counts of this member are gone. Its next call is decided in the new epoch; this one decides
  -- nothing.
  if is_lost then return { LOST, now, found or '', marker } end
end
if refuses_loss == 1 and is_after_loss then return { LOSS_HOLDS, now, marker } end
