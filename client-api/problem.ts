/** Reads the refusal of a service, whose text may be of another program. */
import { ApiError, ForeignAnswerError, type VoidboxError } from './errors.ts';
import type { Diagnostic, Problem } from './openapi.ts';

const PROBLEM_TYPE = 'application/problem+json';
const FAULTS: readonly Problem['fault'][] = ['usage', 'environment', 'failed'];
const MOST_DETAIL_CHARACTERS = 100_000;

/** @param name  the service, for messages */
export function readRefusal(name: string, status: number, headers: Headers, text: string): VoidboxError {
  const isProblem = (headers.get('content-type') ?? '').startsWith(PROBLEM_TYPE);
  const problem = isProblem ? parseProblem(text, status) : null;
  if (problem === null)
    return new ForeignAnswerError(`${name} answers with the status ${status}, and not as Voidbox does`, status);
  return new ApiError(problem, readRetryAfter(headers.get('retry-after')));
}

/** @returns null for a text that is not a problem */
export function parseProblem(text: string, status: number): Problem | null {
  const read = parseObject(text);
  if (read === null) return null;
  const { code, detail, title, remedy, fault, diagnostics } = read;
  if (typeof code !== 'string' || typeof detail !== 'string' || !/^[a-z][\w-]{0,40}\/[\w-]{1,80}$/.test(code))
    return null;
  return {
    code,
    status,
    detail: detail.slice(0, MOST_DETAIL_CHARACTERS),
    title: typeof title === 'string' ? title : '',
    remedy: typeof remedy === 'string' ? remedy : null,
    fault: FAULTS.find((one) => one === fault) ?? 'usage',
    ...(Array.isArray(diagnostics) ? { diagnostics: diagnostics.filter(isDiagnostic) } : {}),
  };
}

function isDiagnostic(value: unknown): value is Diagnostic {
  if (typeof value !== 'object' || value === null) return false;
  const { code, message, line, column } = value as Partial<Diagnostic>;
  return (
    typeof code === 'string' && typeof message === 'string' && typeof line === 'number' && typeof column === 'number'
  );
}

/** @returns null for a text that is not an object of JSON */
export function parseObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === 'object' && read !== null && !Array.isArray(read)
      ? (read as Readonly<Record<string, unknown>>)
      : null;
  } catch {
    return null;
  }
}

/** The service sends whole seconds. A date of a proxy counts as no time. */
function readRetryAfter(text: string | null): number | null {
  return text !== null && /^\d{1,6}$/.test(text) ? Number(text) * 1_000 : null;
}
