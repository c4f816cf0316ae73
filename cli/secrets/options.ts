/** Options that commands about secrets share. */
import type { Command } from 'commander';
import type { SecretRow } from '../../store/triggers.ts';
import type { CliContext } from '../context.ts';

export interface DeploymentOptions {
  readonly deployment?: readonly string[];
  readonly json?: boolean;
}

/** Each use of the option names one deployment, so it does not consume the argument after it. */
export function addDeploymentOption(command: Command, meaning: string): Command {
  return command.option(
    '--deployment <name>',
    `${meaning}; repeatable (default: the value for all deployments)`,
    addName,
  );
}

function addName(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

export function reportProgress({ stderr }: CliContext): (line: string) => void {
  return (line) => void stderr.write(`==> ${line}\n`);
}

/** Prints the changed secrets as JSON, or a line of text. */
export async function printChanged(
  { stdout }: CliContext,
  secrets: readonly SecretRow[],
  { json, text }: { readonly json: boolean | undefined; readonly text: string },
): Promise<void> {
  await stdout.write(json === true ? `${JSON.stringify({ secrets })}\n` : `${text}\n`);
}
