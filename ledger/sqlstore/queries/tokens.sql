-- name: token_new
INSERT INTO api_token (digest, name, scopes, created_at) VALUES (:digest, :name, :scopes, :at)

-- name: token_by_digest
SELECT digest, name, scopes, created_at, revoked_at FROM api_token WHERE digest = :digest

-- name: tokens_by_name
SELECT digest, name, scopes, created_at, revoked_at FROM api_token WHERE name = :name ORDER BY created_at, digest

-- name: tokens
SELECT digest, name, scopes, created_at, revoked_at FROM api_token ORDER BY name, created_at, digest

-- name: token_revoke
UPDATE api_token SET revoked_at = :at WHERE name = :name AND revoked_at = 0
