/** What follows from a code, also for one that this build does not know: logs and histories hold those of other builds. */
import type { ErrorCodeInfo, Retry } from './code-info.ts';
import { ERROR_CODES, type ErrorCode } from './codes.ts';

declare const unknownCode: unique symbol;

/** A text that stood where a code is read and is none of this list. Code never writes one: only `toErrorCode` makes it. */
export type UnknownCode = string & { readonly [unknownCode]: true };

/** What a code is wherever it may have come from outside: from a log, a record, a history, a failure of another build. */
export type AnyErrorCode = ErrorCode | UnknownCode;

/** The one way from a text to a code. A failure without a type is a bug: all that Voidbox makes have one. */
export function toErrorCode(text: string | null | undefined): AnyErrorCode {
  return (text ?? 'internal/bug') as AnyErrorCode;
}

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

/** `never` for a code of another build: what it asks for is not known. */
export function retryOf(code: AnyErrorCode): Retry {
  return infoOf(code)?.retry ?? 'never';
}

export function remedyOf(code: AnyErrorCode): string | null {
  const remedy = infoOf(code)?.remedy;
  return remedy === undefined ? null : withoutLinks(remedy);
}

/** The page in place of a link to it: terminals have none. */
export function withoutLinks(markdown: string): string {
  return markdown.replace(/\[[^\]]+\]\(([\w.-]+\.md[^)\s]*)\)/g, 'docs/reference/$1');
}

/** The VM is gone, not the stage wrong: the run machine tries with a new VM. */
export function isLostVm(code: AnyErrorCode): boolean {
  return retryOf(code) === 'new-vm';
}

/** The VM cannot be used any more, whether another one is tried or not. */
export function endsVm(code: AnyErrorCode): boolean {
  return isLostVm(code) || code === 'host/disk-full';
}

function infoOf(code: AnyErrorCode): ErrorCodeInfo | null {
  return isErrorCode(code) ? ERROR_CODES[code] : null;
}
