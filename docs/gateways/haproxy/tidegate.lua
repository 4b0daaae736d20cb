-- Asks Tidegate about a request and leaves the answer in variables of the transaction:
--
--   txn.tidegate_verdict   admitted, refused, malformed or unreachable
--   txn.tidegate_status    of a refusal: 429 or 503
--   txn.tidegate_reason, txn.tidegate_retry_after, txn.tidegate_ratelimit, txn.tidegate_policy
--                          as Tidegate says them, absent where it says nothing

-- HAProxy's own way to Tidegate, which bounds how long a check may take.
local CHECK = "http://127.0.0.1:8079/v1/authorize?namespace="

local HEADERS = {
  ["x-tidegate-reason"] = "txn.tidegate_reason",
  ["retry-after"] = "txn.tidegate_retry_after",
  ["ratelimit"] = "txn.tidegate_ratelimit",
  ["ratelimit-policy"] = "txn.tidegate_policy",
}

local function verdict(answer)
  if answer.status == 200 then
    return "admitted"
  elseif answer.headers["x-tidegate-reason"] then
    return "refused"
  elseif answer.status == 400 then
    return "malformed"
  elseif answer.status >= 500 then
    -- Also what HAProxy itself says of a server that is gone or silent.
    return "unreachable"
  end
  -- A mistake in the configuration, such as a namespace that does not exist: it should be seen.
  return "refused"
end

core.register_action("tidegate", { "http-req" }, function(txn, namespace)
  local headers = {}
  local key = txn.f:req_fhdr("x-api-key")
  if key then
    -- A header, because nothing in it can end the address and begin another attribute.
    headers["x-api-key"] = { key }
  end
  -- A client serves one request. GET, because some POSTs of this client are lost under load.
  local answer = core.httpclient():get({ url = CHECK .. namespace, headers = headers })
  txn:set_var("txn.tidegate_verdict", verdict(answer))
  txn:set_var("txn.tidegate_status", answer.status)
  for header, variable in pairs(HEADERS) do
    local values = answer.headers[header]
    if values then
      txn:set_var(variable, values[0])
    end
  end
end, 1)
