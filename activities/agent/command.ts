/** The command that runs an agent of a stage, and the files in the guest that it needs. */
import { Buffer } from 'node:buffer';
import { posix } from 'node:path';
import { type AgentCommand, type AgentProvider, AGENT_WORKSPACE, type OwnLimits } from '../../agents/provider.ts';
import { composePrompt, INPUT_IN_PROMPT_BYTES } from '../../agents/prompt.ts';
import { providerOf } from '../../agents/registry.ts';
import { AGENT_STAGE_DEFAULTS } from '../../domain/plan/defaults.ts';
import { llmInGuest } from '../../domain/agent/agent-cli.ts';
import type { AgentWork, JsonValue, StepMachineWork } from '../../domain/plan/plan.ts';
import { findWorkingFolder } from '../../domain/plan/workspace.ts';
import { formatExecKey, parseExecKey } from '../../domain/run/attempt.ts';
import { agentProgram } from '../ports/agent-layers.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import type { CredentialText } from '../attempt/host-variables.ts';
import { type ExecRequest, OWNERS_FILE_MODE, type Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { inputFile } from '../attempt/inputs.ts';
import { quote } from '../../domain/units/quote.ts';

/** The folder of the guest's image with the mock agents, which have the names of the command lines that they play. */
const MOCK_AGENTS = '/usr/lib/voidbox/mock-agents';

export interface AgentOfStage {
  readonly provider: AgentProvider;
  readonly work: Pick<AgentWork, 'llm' | 'skills' | 'played' | 'budget'>;
  readonly program: string;
}

export function agentOfWork(work: AgentWork | StepMachineWork): AgentOfStage {
  const provider = providerOf(work.llm);
  return {
    provider,
    work,
    program: work.played === true ? `${MOCK_AGENTS}/${provider.cli}` : agentProgram(provider.cli),
  };
}

/** Returns true if the agent must write its output into a file. */
export function writesFile({ stage }: Pick<StageRequest, 'stage'>): boolean {
  // A schema without an output file applies to the last message, which the command line checks too.
  return stage.outputFile !== null && !(stage.outputSchema !== undefined && isDefaultFile(stage.outputFile));
}

/** Returns true for the default output file, which no agent has to write. */
export function isDefaultFile(guestPath: string): boolean {
  return guestPath === AGENT_STAGE_DEFAULTS.outputFile;
}

/** @param prompt the prompt that the author wrote */
export async function promptOf(artifacts: ArtifactStore, request: StageRequest, prompt: string): Promise<string> {
  const input = await inputFile(artifacts, request);
  return composePrompt({
    prompt,
    input: input === null ? null : await readFirstBytes(input.bytes, INPUT_IN_PROMPT_BYTES),
    outputFile: writesFile(request) ? request.stage.outputFile : null,
  });
}

export interface AgentAsked {
  readonly prompt: string;
  /** The schema that the agent's command line checks; undefined: no schema. */
  readonly outputSchema: JsonValue | undefined;
  /** The session to continue; null: a new session. */
  readonly resume: string | null;
  /** The limits that the command line enforces itself. */
  readonly limits: OwnLimits;
}

export function commandOfAgent({ provider, work }: AgentOfStage, asked: AgentAsked): AgentCommand {
  return provider.command({ ...asked, llm: llmInGuest(work), skills: work.skills });
}

/**
 * Returns the schema for the last message. The command line cannot check a file, so the result is undefined for a file.
 */
export function schemaOf(request: StageRequest): StageRequest['stage']['outputSchema'] {
  return writesFile(request) ? undefined : request.stage.outputSchema;
}

interface CommandLimits {
  readonly prompt: string;
  /** The number of the command within its attempt, from 1. */
  readonly command: number;
  readonly timeoutMs: number;
  /** Absent: the limit of the stage. */
  readonly maxOutputBytes?: number;
}

export function buildAgentExec(
  request: StageRequest,
  agent: AgentOfStage,
  called: AgentCommand,
  stageEnv: Readonly<Record<string, string>>,
  { prompt, command, timeoutMs, maxOutputBytes }: CommandLimits,
): ExecRequest {
  const bytes = Buffer.from(prompt);
  return {
    key: commandKey(request.execKey, command),
    ...programOf(agent, called),
    env: { ...called.env, ...stageEnv },
    cwd: findWorkingFolder(request.stage) ?? AGENT_WORKSPACE,
    stdin: { sizeBytes: bytes.byteLength, open: (offset) => toStream(bytes.subarray(offset)) },
    timeoutMs,
    maxOutputBytes: maxOutputBytes ?? request.stage.maxOutputBytes,
  };
}

/**
 * Creates the agent's links with a shell, because a tar cannot put a link into a guest that leads out of its folder. A
 * played agent reads no files and needs no links.
 */
function programOf(
  { program, work }: AgentOfStage,
  { args, links = [] }: AgentCommand,
): Pick<ExecRequest, 'program' | 'args'> {
  if (links.length === 0 || work.played === true) return { program, args };
  const made = links.map(
    ({ guestPath, target }) => `mkdir -p '${posix.dirname(guestPath)}' && ln -sf '${target}' '${guestPath}' && `,
  );
  return { program: '/bin/sh', args: ['-c', `${made.join('')}exec "$0" "$@"`, program, ...args] };
}

export function commandKey(execKey: string, command: number): string {
  const name = parseExecKey(execKey);
  if (name === null) throw new Error(`${quote(execKey)} is no exec key`);
  return formatExecKey({ ...name, command });
}

/** Must not run again once the agent has started. */
export async function putAgentFiles(sandbox: Sandbox, { files }: AgentCommand, signal: AbortSignal): Promise<void> {
  for (const { guestPath, text } of files) {
    const bytes = Buffer.from(text);
    await sandbox.writeFile(guestPath, bytes.byteLength, toStream(bytes), signal);
  }
}

/** Writes the logins into the guest's memory, readable only for the user of the commands. */
export async function putCredentials(
  sandbox: Sandbox,
  credentials: readonly CredentialText[],
  signal: AbortSignal,
): Promise<void> {
  for (const { guestPath, text } of credentials) {
    const bytes = Buffer.from(text);
    await sandbox.writeFile(guestPath, bytes.byteLength, toStream(bytes), signal, OWNERS_FILE_MODE);
  }
}

/** Reads at most `most` bytes of a source. */
export async function readFirstBytes(source: AsyncIterable<Uint8Array>, most: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of source) {
    parts.push(part);
    bytes += part.byteLength;
    if (bytes >= most) break;
  }
  return Buffer.concat(parts).subarray(0, most);
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
