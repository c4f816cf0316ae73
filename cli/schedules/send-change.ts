/** Pauses or resumes a schedule, and prints it. */
import { askTokenService } from '../../app/access/token-service.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { parseSchedule } from './answers.ts';

export interface SentChange {
  readonly deployment: string;
  readonly trigger: string;
  readonly verb: 'pause' | 'resume';
  readonly body: Readonly<Record<string, unknown>> | null;
  readonly isJson: boolean;
  /** The line for people. */
  readonly text: string;
}

/** @returns the exit code */
export async function sendChange(change: SentChange, context: CliContext): Promise<ExitCode> {
  const { deployment, trigger, verb, body, isJson, text } = change;
  const answer = await askTokenService(context, {
    method: 'POST',
    path: ['deployments', deployment, 'schedules', trigger, verb],
    ...(body === null ? {} : { body: { json: body } }),
    onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
  });
  const schedule = parseSchedule(answer);
  await context.stdout.write(`${isJson ? JSON.stringify(schedule) : text}\n`);
  return EXIT.success;
}
