/**
 * The consequences of a code, also of a code that this build does not know: logs and histories contain codes of other
 * builds.
 */
import type { ErrorCodeInfo, Retry } from './code-info.ts';
import { ERROR_CODES, type ErrorCode } from './codes.ts';

declare const unknownCode: unique symbol;

/** A text in the place of a code that is not in the list of this build. Only `toErrorCode` makes such a code. */
export type UnknownCode = string & { readonly [unknownCode]: true };

/** The type of a code from outside: from a log, a record, a history, or a failure of another build. */
export type AnyErrorCode = ErrorCode | UnknownCode;

/**
 * Converts a text to a code; no other function does. A failure without a type is a bug, because all failures of Voidbox
 * have one.
 */
export function toErrorCode(text: string | null | undefined): AnyErrorCode {
  return (text ?? 'internal/bug') as AnyErrorCode;
}

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

/** Returns `never` for a code of another build, because this build does not know its retry. */
export function retryOf(code: AnyErrorCode): Retry {
  return infoOf(code)?.retry ?? 'never';
}

export function remedyOf(code: AnyErrorCode): string | null {
  const remedy = infoOf(code)?.remedy;
  return remedy === undefined ? null : withoutLinks(remedy);
}

/** Replaces each link by the path of its page, because terminals do not show links. */
export function withoutLinks(markdown: string): string {
  return markdown.replace(/\[[^\]]+\]\(([\w.-]+\.md[^)\s]*)\)/g, 'docs/reference/$1');
}

/** The VM is gone, but the stage is not at fault: the run machine tries again with a new VM. */
export function isLostVm(code: AnyErrorCode): boolean {
  return retryOf(code) === 'new-vm';
}

/** Whether the VM is unusable, whether or not the run machine tries another one. */
export function endsVm(code: AnyErrorCode): boolean {
  return isLostVm(code) || code === 'host/disk-full';
}

function infoOf(code: AnyErrorCode): ErrorCodeInfo | null {
  return isErrorCode(code) ? ERROR_CODES[code] : null;
}
