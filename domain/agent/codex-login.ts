/**
 * The login of a ChatGPT subscriber, as `codex login` keeps it, and as a guest gets it: with the access token, which ends by
 * itself, and without the refresh token, which makes new ones for months.
 */

export interface CodexLogin {
  readonly accessToken: string;
  /** The text of `auth.json` for a guest. */
  readonly forGuest: string;
}

/**
 * Without claims. Codex demands an ID token and sends it to nobody; the real one has the person's name and address.
 */
const NO_CLAIMS = 'eyJhbGciOiJub25lIn0.e30.bm9uZQ';

/** Of a file that does not say when its tokens were made. Codex takes a login without a time for none. */
const LONG_AGO = '1970-01-01T00:00:00Z';

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;

/** Of a text that may have been made by this already. Null: it is no login by a subscription. */
export function readCodexLogin(text: string): CodexLogin | null {
  const file = fieldsOf(parse(text));
  const tokens = fieldsOf(file['tokens']);
  const accessToken = textOf(tokens['access_token']);
  const accountId = textOf(tokens['account_id']);
  if (accessToken === null || accountId === null) return null;
  const lastRefresh = textOf(file['last_refresh']);
  const forGuest = {
    // Tokens that somebody else renews: Codex asks for no other ones, not even where these are refused.
    auth_mode: 'chatgptAuthTokens',
    OPENAI_API_KEY: null,
    tokens: { id_token: NO_CLAIMS, access_token: accessToken, refresh_token: '', account_id: accountId },
    last_refresh: lastRefresh !== null && ISO_TIME.test(lastRefresh) ? lastRefresh : LONG_AGO,
  };
  return { accessToken, forGuest: JSON.stringify(forGuest) };
}

/** Every token and key in the text of such a login: each is a secret by itself. Of any other text none. */
export function tokensOfLogin(text: string): readonly string[] {
  const file = fieldsOf(parse(text));
  const tokens = fieldsOf(file['tokens']);
  const said = [tokens['id_token'], tokens['access_token'], tokens['refresh_token'], file['OPENAI_API_KEY']];
  return said.flatMap((value) => textOf(value) ?? []);
}

function parse(text: string): unknown {
  // Most values are keys, and the parser would name a part of them in its error.
  if (!/^\s*\{/.test(text)) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
