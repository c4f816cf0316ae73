/** What follows from a code, also for one that this build does not know: logs and histories hold those of other builds. */
import type { ErrorCodeInfo, Retry } from './code-info.ts';
import { ERROR_CODES, type ErrorCode } from './codes.ts';

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

/** `never` for a code of another build: what it asks for is not known. */
export function retryOf(code: string): Retry {
  return infoOf(code)?.retry ?? 'never';
}

export function remedyOf(code: string): string | null {
  return infoOf(code)?.remedy ?? null;
}

/** The VM is gone, not the stage wrong: the run machine tries with a new VM. */
export function isLostVm(code: string): boolean {
  return retryOf(code) === 'new-vm';
}

/** The VM cannot be used any more, whether another one is tried or not. */
export function endsVm(code: string): boolean {
  return isLostVm(code) || code === 'host/disk-full';
}

function infoOf(code: string): ErrorCodeInfo | null {
  return isErrorCode(code) ? ERROR_CODES[code] : null;
}
