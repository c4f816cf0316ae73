/** `voidbox/skill-kit/cli`: a skill as a program. */
import type { ReferenceDefinition, SkillDefinition } from '../domain/step-machine/definition.ts';
import { sanitize } from '../domain/security/sanitize.ts';
import { offerToWorker } from './worker-handoff.ts';
import { claimStdout } from './cli/own-stdout.ts';
import { grantDeclared, processRedaction, withholdEnvironment } from './drive/skill-environment.ts';
import { runReferenceCommand, runSkillCommand } from './cli/commands.ts';
import { InputBytes } from './cli/input-bytes.ts';
import { isFolderDescriptor } from '../files/folder-descriptor.ts';
import { type CommandIo, FolderAsInput } from './cli/io.ts';
import { mcpMain, mcpReferenceMain } from './mcp/main.ts';

export { mcpCompositeMain, mcpMain, mcpReferenceMain } from './mcp/main.ts';

/**
 * Runs this process's command line as the skill's: `start`, `advance`, `cleanup`, `topics`, `topic`, `mcp`, and its sub-skills by
 * name. Ends the process: 0 for every answer, also a refused one; 1 for errors, which are on stderr; 2 for a wrong command line.
 * @param refsBase  the folder that holds `references/`; default: the script's own, or the one above it
 */
export async function main(definition: SkillDefinition, refsBase?: string): Promise<void> {
  if (offerToWorker(definition)) return;
  if (isMcp()) await mcpMain(definition, refsBase);
  else await runProcess((io) => runSkillCommand(definition, io, refsBase));
}

/** As `main`, which serves skills with sub-skills and topics as well. */
export async function compositeMain(definition: SkillDefinition, refsBase?: string): Promise<void> {
  await main(definition, refsBase);
}

/** As `main`, for a reference: `topics`, `topic` and `mcp`. */
export async function referenceMain(definition: ReferenceDefinition, base?: string): Promise<void> {
  if (offerToWorker(definition)) return;
  if (isMcp()) await mcpReferenceMain(definition, base);
  else await runProcess((io) => runReferenceCommand(definition, io, base));
}

function isMcp(): boolean {
  return process.argv[2] === 'mcp';
}

async function runProcess(run: (io: CommandIo) => Promise<number>): Promise<void> {
  withholdEnvironment();
  process.once('beforeExit', neverSettled);
  const { write } = claimStdout();
  process.stdout.once('error', nobodyReads);
  const code = await run({
    argv: process.argv.slice(2),
    stdout: (text) => void write(processRedaction().text(text)),
    // Messages quote what agents answered and files hold.
    stderr: (text) => void process.stderr.write(sanitize(processRedaction().text(text))),
    enter: grantDeclared,
    readStdin,
    script: process.argv[1] ?? null,
  });
  process.off('beforeExit', neverSettled);
  await new Promise<void>((resolve) => write('', () => resolve()));
  // An action that ran past its time, or a timer of the skill, would keep the process alive after its last output.
  process.exit(code);
}

/**
 * Reports a full disk, or a pipe whose reader has gone. Completed work stays; for a session, the next call returns the
 * result again.
 */
function nobodyReads({ message }: Error): void {
  process.stderr.write(`error: the result cannot be written to standard output: ${message}\n`);
  process.exit(1);
}

/** Node ends, with success, a process in which nothing can happen any more. */
function neverSettled(): void {
  process.stderr.write(
    'error: the skill waits for something that never comes: a promise of its code is never settled. Look at its actions.\n',
  );
  process.exit(1);
}

/** @throws FolderAsInput */
async function readStdin(): Promise<string> {
  if (isFolderDescriptor(0)) throw new FolderAsInput();
  const bytes = new InputBytes();
  for await (const chunk of process.stdin) bytes.add(chunk as Buffer);
  return bytes.text();
}
