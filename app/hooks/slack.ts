import {
  findHeaderRefusal,
  findTimeRefusal,
  type HookScheme,
  readBodyText,
  readOnce,
  readSenderId,
} from './hook-request.ts';
import { computeHmac, dropEmptySecrets, hasRightSignature, readSignature } from './signatures.ts';

const SIGNATURE = 'x-slack-signature';
const TIME = 'x-slack-request-timestamp';
const PREFIX = 'v0=';

/** `X-Slack-Signature: v0=HEX`: the HMAC of `v0:TIME:BODY`. */
export const SLACK: HookScheme = {
  verify({ headers, body, nowMs }, secrets) {
    const keys = dropEmptySecrets(secrets);
    if (keys.length === 0) return 'no-secret';
    const refusal = findHeaderRefusal(headers, [SIGNATURE, TIME]);
    if (refusal !== null) return refusal;
    const text = readOnce(headers, SIGNATURE)!;
    const time = readOnce(headers, TIME)!;
    const signature = text.startsWith(PREFIX) ? readSignature(text.slice(PREFIX.length), 'hex', 'sha256') : null;
    if (signature === null) return 'malformed';
    const late = findTimeRefusal(time, nowMs);
    if (late !== null) return late;
    const right = keys.map((key) => sign(key, time, body));
    return hasRightSignature([signature], right) ? null : 'wrong';
  },
  findSenderId: ({ body }) => readSenderId(readBodyText(body, 'event_id')),
  sign({ body, nowMs }, secret) {
    const time = String(Math.floor(nowMs / 1_000));
    return { [SIGNATURE]: `${PREFIX}${sign(secret, time, body).toString('hex')}`, [TIME]: time };
  },
};

function sign(secret: string, time: string, body: Uint8Array): Buffer {
  return computeHmac('sha256', secret, `v0:${time}:`, body);
}
