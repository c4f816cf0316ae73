/** Headers of every answer, which keep browsers from showing, keeping or guessing at it. */
export const SECURITY_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const;

/** With TLS: browsers use no other connection to this host, for a year. */
export const TLS_HEADERS = { 'strict-transport-security': 'max-age=31536000' } as const;
