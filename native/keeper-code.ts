/** Codes of the keeper's API, which docs/reference/keeper.md lists, and what each of them is in the list of error codes. */
import type { ErrorCode } from '../domain/errors/codes.ts';
import { endsVm } from '../domain/errors/error-code.ts';

const ERROR_CODES_OF_KEEPER: ReadonlyMap<string, ErrorCode> = new Map<string, ErrorCode>([
  ['fence/stale', 'fence/stale'],
  ['vm/boot-timeout', 'vm/boot-timeout'],
  ['vm/lost', 'vm/lost'],
  ['vm/protocol', 'vm/protocol'],
  ['vm/refused', 'vm/refused'],
  ['vm/no-capacity', 'vm/no-capacity'],
  ['stage/bad-output', 'stage/bad-output'],
  ['host/not-ready', 'host/not-ready'],
  ['host/disk-full', 'host/disk-full'],
  ['host/io', 'store/io'],
  ['guest/disk-full', 'stage/disk-full'],
  ['guest/error', 'vm/guest-error'],
  // A VM of another build of Voidbox cannot be driven by this one.
  ['api/version', 'vm/lost'],
]);

/** Null for what only a bug of this client leads to: a request that is not understood, an exec that was never started. */
export function errorCodeOfKeeper(code: string): ErrorCode | null {
  return ERROR_CODES_OF_KEEPER.get(code) ?? null;
}

/** Of the end that a run directory tells. A VM that is gone is lost, unless the keeper said more. */
export function errorCodeOfEnd(code: string): ErrorCode {
  const known = errorCodeOfKeeper(code);
  return known !== null && (endsVm(known) || known === 'vm/refused') ? known : 'vm/lost';
}
