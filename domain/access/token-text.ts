/** The text of a token: `voidbox_` and 256 random bits as base64url. Scanners of leaked secrets find the prefix. */
export const TOKEN_BYTES = 32;
export const TOKEN_PREFIX = 'voidbox_';
const TOKEN_TEXT = /^voidbox_[A-Za-z0-9_-]{43}$/;

export function isTokenText(text: string): boolean {
  return TOKEN_TEXT.test(text);
}

/** The name of the daemon's token, which is in no database. */
export const DAEMON_TOKEN_NAME = 'daemon';

/** Names are shown in approvals, in the audit log and on command lines. */
export const TOKEN_NAME_CHARACTERS = 64;
const TOKEN_NAME = /^[\p{L}\p{N}][\p{L}\p{N}._@-]{0,63}$/u;

/** @returns null if the name is valid */
export function findTokenNameProblem(name: string): string | null {
  if ([...name].length > TOKEN_NAME_CHARACTERS) return `it has more than ${TOKEN_NAME_CHARACTERS} characters`;
  return TOKEN_NAME.test(name) ? null : 'a name has letters, digits and . _ @ -, and begins with a letter or digit';
}
