import {
  findHeaderRefusal,
  findTimeRefusal,
  type HookScheme,
  readBodyText,
  readOnce,
  readSenderId,
} from './hook-request.ts';
import { computeHmac, dropEmptySecrets, hasRightSignature, MOST_SIGNATURES, readSignature } from './signatures.ts';

const SIGNATURE = 'stripe-signature';

/** `Stripe-Signature: t=TIME,v1=HEX[,v1=HEX]`: the HMAC of `TIME.BODY`. Other versions are not read. */
export const STRIPE: HookScheme = {
  verify({ headers, body, nowMs }, secrets) {
    const keys = dropEmptySecrets(secrets);
    if (keys.length === 0) return 'no-secret';
    const refusal = findHeaderRefusal(headers, [SIGNATURE]);
    if (refusal !== null) return refusal;
    const parts = readOnce(headers, SIGNATURE)!.split(',');
    const times = listValues(parts, 't=');
    const signatures = listValues(parts, 'v1=').map((text) => readSignature(text, 'hex', 'sha256'));
    const given = signatures.filter((signature) => signature !== null);
    if (times.length !== 1 || given.length === 0 || given.length !== signatures.length) return 'malformed';
    if (given.length > MOST_SIGNATURES) return 'malformed';
    const [time] = times as readonly [string];
    const late = findTimeRefusal(time, nowMs);
    if (late !== null) return late;
    const right = keys.map((key) => computeHmac('sha256', key, `${time}.`, body));
    return hasRightSignature(given, right) ? null : 'wrong';
  },
  findSenderId: ({ body }) => readSenderId(readBodyText(body, 'id')),
  sign({ body, nowMs }, secret) {
    const time = Math.floor(nowMs / 1_000);
    return { [SIGNATURE]: `t=${time},v1=${computeHmac('sha256', secret, `${time}.`, body).toString('hex')}` };
  },
};

function listValues(parts: readonly string[], key: string): readonly string[] {
  return parts.flatMap((part) => (part.trim().startsWith(key) ? [part.trim().slice(key.length)] : []));
}
