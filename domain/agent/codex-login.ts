/**
 * The login of a ChatGPT subscriber: the file that `codex login` writes, and the text that a guest gets. The guest gets
 * the access token, which expires. It does not get the refresh token, which makes new access tokens for months.
 */

export interface CodexLogin {
  readonly accessToken: string;
  /** The text of `auth.json` for a guest. */
  readonly forGuest: string;
}

/**
 * An ID token without claims. Codex requires an ID token and sends it nowhere. The real one contains the person's name
 * and address.
 */
const NO_CLAIMS = 'eyJhbGciOiJub25lIn0.e30.bm9uZQ';

/** The time for a file that does not record when its tokens were made. Codex ignores a login without a time. */
const LONG_AGO = '1970-01-01T00:00:00Z';

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;

/** Reads a login. It may already be a text that this function made. Null: the text is not a login by a subscription. */
export function readCodexLogin(text: string): CodexLogin | null {
  const file = fieldsOf(parse(text));
  const tokens = fieldsOf(file['tokens']);
  const accessToken = textOf(tokens['access_token']);
  const accountId = textOf(tokens['account_id']);
  if (accessToken === null || accountId === null) return null;
  const lastRefresh = textOf(file['last_refresh']);
  const forGuest = {
    // In this mode another program renews the tokens: Codex does not request new ones, even if a host rejects these.
    auth_mode: 'chatgptAuthTokens',
    OPENAI_API_KEY: null,
    tokens: { id_token: NO_CLAIMS, access_token: accessToken, refresh_token: '', account_id: accountId },
    last_refresh: lastRefresh !== null && ISO_TIME.test(lastRefresh) ? lastRefresh : LONG_AGO,
  };
  return { accessToken, forGuest: JSON.stringify(forGuest) };
}

/** Every token and key in the text of such a login, because each is a secret. Empty for any other text. */
export function tokensOfLogin(text: string): readonly string[] {
  const file = fieldsOf(parse(text));
  const tokens = fieldsOf(file['tokens']);
  const said = [tokens['id_token'], tokens['access_token'], tokens['refresh_token'], file['OPENAI_API_KEY']];
  return said.flatMap((value) => textOf(value) ?? []);
}

function parse(text: string): unknown {
  // Most values are keys, and an error of the parser would quote a part of the key.
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
