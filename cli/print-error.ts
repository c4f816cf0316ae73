import type { AnyErrorCode } from '../domain/errors/error-code.ts';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { NoServerError } from '../client/temporal/no-server.ts';
import { callStatus, isUnavailable, serverMessageOf } from '../client/temporal/unavailable.ts';
import { AppError } from '../app/app-error.ts';
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
  if (error instanceof AppError)
    return { exitCode: exitCodeOf(error.fault), code: error.code, message: error.message, remedy: error.remedy };
  if (isCodedError(error)) {
    // Loaded here and not above: a command that succeeds needs no texts of errors. Without a free descriptor, the error
    // is printed without its remedy.
    const texts = await import('../domain/errors/error-code.ts').catch(() => null);
    return {
      exitCode: EXIT.environment,
      code: error.code,
      message: `${error.message} (${error.code})`,
      remedy: texts?.remedyOf(error.code) ?? null,
    };
  }
  if (isSetupError(error))
    return { exitCode: EXIT.environment, code: 'host/not-ready', message: error.message, remedy: error.remedy };
  if (needsOpenFiles(error)) {
    const remedy =
      'Raise the limit in the shell that starts it: ulimit -n 1024. For ENFILE, close files of other programs: the limit is for the whole machine.';
    return {
      exitCode: EXIT.environment,
      code: 'host/not-ready',
      message: `too many open files: ${(error as Error).message}`,
      remedy,
    };
  }
  if (isDiskFull(error))
    return {
      exitCode: EXIT.environment,
      code: 'host/disk-full',
      message: (error as Error).message,
      remedy: 'Free space on that disk (`voidbox prune` deletes old runs), and try again.',
    };
  if (error instanceof NoServerError)
    return { exitCode: EXIT.environment, code: 'cli/no-server', message: error.message, remedy: error.remedy };
  if (isUnavailable(error)) {
    const remedy = 'The embedded server restarts automatically: run the command again. Check it: voidbox ps';
    return {
      exitCode: EXIT.environment,
      code: 'cli/no-server',
      message: `the connection to the Temporal server was lost: ${serverMessageOf(error)}`,
      remedy,
    };
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { exitCode: EXIT.runFailed, code: 'cli/bug', message: `this is a bug in voidbox: ${text}`, remedy: null };
}

/** Whether the user ended the command, as with Ctrl-C; then no error is printed. */
function isInterrupted(error: unknown): boolean {
  return error instanceof Error && error.name === 'Interrupted';
}

/** Checks the shape instead of the class, so that light commands do not load set-up. */
function isSetupError(error: unknown): error is Error & { readonly remedy: string | null } {
  return error instanceof Error && error.name === 'SetupError';
}

function needsOpenFiles(error: unknown): boolean {
  return error instanceof Error && ['EMFILE', 'ENFILE'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/** Recognises the error of a system call, also in a command that does not handle a full disk. */
function isDiskFull(error: unknown): boolean {
  return error instanceof Error && ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}
