/** Maps codes of the keeper's API, which docs/reference/keeper.md lists, to codes of the list of errors. */
import type { ErrorCode } from '../domain/errors/codes.ts';
import { endsVm } from '../domain/errors/error-code.ts';

const ERROR_CODES_OF_KEEPER: ReadonlyMap<string, ErrorCode> = new Map<string, ErrorCode>([
  ['fence/stale', 'fence/stale'],
  ['vm/boot-timeout', 'vm/boot-timeout'],
  ['vm/lost', 'vm/lost'],
  ['vm/protocol', 'vm/protocol'],
  ['vm/refused', 'vm/refused'],
  ['vm/no-capacity', 'vm/no-capacity'],
  ['vm/busy', 'vm/busy'],
  ['vm/checkpoint-failed', 'vm/checkpoint-failed'],
  ['vm/checkpoint-unfit', 'vm/checkpoint-unfit'],
  ['stage/bad-output', 'stage/bad-output'],
  ['host/not-ready', 'host/not-ready'],
  ['host/disk-full', 'host/disk-full'],
  ['host/io', 'store/io'],
  ['guest/disk-full', 'stage/disk-full'],
  ['guest/error', 'vm/guest-error'],
  // This build cannot drive a VM of another build of Voidbox.
  ['api/version', 'vm/lost'],
]);

/**
 * Returns null for errors that only a bug of this client causes: a request that the keeper does not understand, an exec
 * that was never started.
 */
export function errorCodeOfKeeper(code: string): ErrorCode | null {
  return ERROR_CODES_OF_KEEPER.get(code) ?? null;
}

/**
 * Returns the error code for a VM's end in its run directory: `vm/lost`, unless the keeper wrote a more precise code.
 */
export function errorCodeOfEnd(code: string): ErrorCode {
  const known = errorCodeOfKeeper(code);
  return known !== null && (endsVm(known) || known === 'vm/refused') ? known : 'vm/lost';
}
