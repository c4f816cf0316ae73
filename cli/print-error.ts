import type { AnyErrorCode } from '../domain/errors/error-code.ts';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { callStatus } from '../client/temporal/unavailable.ts';
import { describeError } from '../app/describe-error.ts';
import { type CliContext, ReaderGone } from './context.ts';
import { EXIT, type ExitCode, exitCodeOf } from './exit-code.ts';
import { cutText } from '../domain/units/cut-text.ts';
import { sanitize } from '../domain/security/sanitize.ts';

interface Printable {
  readonly exitCode: ExitCode;
  readonly code: AnyErrorCode;
  readonly message: string;
  readonly remedy: string | null;
}

/** Prints an error to standard error, as text or as one line of JSON, and returns its exit code. */
export async function printError(
  error: unknown,
  options: { readonly context: CliContext; readonly json: boolean },
): Promise<ExitCode> {
  const { context } = options;
  if (isInterrupted(error)) return EXIT.interrupted;
  if (error instanceof ReaderGone) return EXIT.success;
  const {
    exitCode,
    code,
    message: whole,
    remedy: advice,
  } = await toPrintable((await ownServerRefusal(error, context)) ?? error);
  // The shell passes arguments of 128 KiB, and a message may quote one.
  const message = cutText(whole);
  const remedy = advice === null ? null : context.advise(advice);
  const { style } = context.stderr;
  if (options.json) {
    await context.stderr.write(`${JSON.stringify({ error: { code, message, remedy } })}\n`);
  } else {
    const help = remedy === null ? '' : `${indent(sanitize(remedy))}\n`;
    await context.stderr.write(`${style.red('error:')} ${sanitize(message)}\n${help}`);
  }
  return exitCode;
}

/**
 * Converts the error if your own Temporal server rejects a call, which can happen even after it has accepted the
 * connection.
 */
async function ownServerRefusal(error: unknown, { env }: CliContext): Promise<Error | null> {
  if (!env.temporalConfigured || callStatus(error) === null) return null;
  const { refusalOf } = await import('../client/temporal/server-problem.ts');
  const { readConfiguredAddress } = await import('../client/temporal/temporal-address.ts');
  const target = readConfiguredAddress(env);
  return target === null ? null : refusalOf(error, target, env);
}

async function toPrintable(error: unknown): Promise<Printable> {
  const facts = await describeError(error);
  if (facts === null) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { exitCode: EXIT.runFailed, code: 'cli/bug', message: `this is a bug in voidbox: ${text}`, remedy: null };
  }
  const { fault, code, message, remedy } = facts;
  return {
    exitCode: exitCodeOf(fault),
    code,
    message: isCodedError(error) ? `${message} (${code})` : message,
    remedy,
  };
}

/** Whether the user ended the command, as with Ctrl-C; then no error is printed. */
function isInterrupted(error: unknown): boolean {
  return error instanceof Error && error.name === 'Interrupted';
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}
