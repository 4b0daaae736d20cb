-- Draws from 1000 applications, 10 000 users and 100 000 sessions; NS names the namespace of
-- three.yaml.
math.randomseed(42)
local namespace = os.getenv("NS") or "api"

function request()
  local session = math.random(0, 99999)
  local body = string.format(
    '{"namespace":"%s","attributes":{"api_key":"k%03d","user":"u%05d","session":"s%06d"}}',
    namespace, session % 1000, session % 10000, session)
  return wrk.format("POST", "/v1/check", nil, body)
end
