import { findHeaderRefusal, findTimeRefusal, type HookScheme, readOnce, readSenderId } from './hook-request.ts';
import { computeHmac, dropEmptySecrets, hasRightSignature, MOST_SIGNATURES, readSignature } from './signatures.ts';

const [ID, TIME, SIGNATURE] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;
const SECRET_PREFIX = 'whsec_';
const VERSION = 'v1,';

/** Standard Webhooks with symmetric secrets: `v1,BASE64` is the HMAC of `ID.TIME.BODY`; other versions are not read. */
export const STANDARD_WEBHOOKS: HookScheme = {
  verify({ headers, body, nowMs }, secrets) {
    const keys = dropEmptySecrets(secrets).map(readKey);
    const known = keys.filter((key) => key !== null);
    if (known.length === 0) return 'no-secret';
    const refusal = findHeaderRefusal(headers, [ID, TIME, SIGNATURE]);
    if (refusal !== null) return refusal;
    const id = readId(readOnce(headers, ID)!);
    const time = readOnce(headers, TIME)!;
    const given = readSignatures(readOnce(headers, SIGNATURE)!);
    if (id === null || given === null) return 'malformed';
    const late = findTimeRefusal(time, nowMs);
    if (late !== null) return late;
    const right = known.map((key) => computeHmac('sha256', key, `${id}.${time}.`, body));
    return hasRightSignature(given, right) ? null : 'wrong';
  },
  findSenderId: ({ headers }) => readId(readOnce(headers, ID)!),
  sign({ body, nowMs, id }, secret) {
    const time = String(Math.floor(nowMs / 1_000));
    const key = readKey(secret);
    if (key === null) return null;
    const signature = computeHmac('sha256', key, `${id}.${time}.`, body).toString('base64');
    return { [ID]: id, [TIME]: time, [SIGNATURE]: `${VERSION}${signature}` };
  },
};

/** The standard forbids a full stop in an id: a part of an id could else pass for a time. */
function readId(text: string): string | null {
  return text.includes('.') ? null : readSenderId(text);
}

/** @returns null for a header without a signature that can be compared */
function readSignatures(text: string): readonly Uint8Array[] | null {
  const texts = text.split(' ').filter((part) => part.startsWith(VERSION));
  const signatures = texts.map((part) => readSignature(part.slice(VERSION.length), 'base64', 'sha256'));
  const known = signatures.filter((signature) => signature !== null);
  const isReadable = known.length === signatures.length && known.length > 0 && known.length <= MOST_SIGNATURES;
  return isReadable ? known : null;
}

/** @returns null for a secret that is not base64 */
function readKey(secret: string): Buffer | null {
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret;
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  const key = Buffer.from(text, 'base64');
  return key.length === 0 ? null : key;
}
