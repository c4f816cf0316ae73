import type { HmacScheme } from '../../domain/delivery/trigger.ts';
import { findHeaderRefusal, findTimeRefusal, type HookScheme, readOnce } from './hook-request.ts';
import { computeHmac, dropEmptySecrets, hasRightSignature, readSignature } from './signatures.ts';

/** A header with the HMAC of the body, or of `TIME.BODY` if another header has the time. */
export function createHmacScheme({ header, prefix, algorithm, encoding, timestamp }: HmacScheme): HookScheme {
  const proof = timestamp === null ? [header] : [header, timestamp];
  const sign = (secret: string, time: string | null, body: Uint8Array): Buffer =>
    computeHmac(algorithm, secret, ...(time === null ? [] : [`${time}.`]), body);
  return {
    verify({ headers, body, nowMs }, secrets) {
      const keys = dropEmptySecrets(secrets);
      if (keys.length === 0) return 'no-secret';
      const refusal = findHeaderRefusal(headers, proof);
      if (refusal !== null) return refusal;
      const text = readOnce(headers, header)!;
      const signature = text.startsWith(prefix) ? readSignature(text.slice(prefix.length), encoding, algorithm) : null;
      const time = timestamp === null ? null : readOnce(headers, timestamp)!;
      if (signature === null) return 'malformed';
      const late = time === null ? null : findTimeRefusal(time, nowMs);
      if (late !== null) return late;
      const right = keys.map((key) => sign(key, time, body));
      return hasRightSignature([signature], right) ? null : 'wrong';
    },
    findSenderId: () => null,
    sign({ body, nowMs }, secret) {
      const time = timestamp === null ? null : String(Math.floor(nowMs / 1_000));
      return {
        [header]: `${prefix}${sign(secret, time, body).toString(encoding)}`,
        ...(timestamp === null ? {} : { [timestamp]: time! }),
      };
    },
  };
}
