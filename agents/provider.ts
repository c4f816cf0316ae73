/**
 * The interface of a provider: how to call its command line, and how to read its output. `registry.ts` lists one file
 * for each provider.
 */
import type { AgentCli } from '../domain/agent/agent-cli.ts';
import type { AgentSkill, JsonValue, LlmPlan, LlmProvider } from '../domain/plan/plan.ts';
import type { AgentStream, AgentUsage } from './stream.ts';

export interface AgentTask {
  readonly prompt: string;
  readonly llm: LlmPlan | null;
  readonly skills: readonly AgentSkill[];
  /** The JSON Schema of the answer; undefined: any answer is allowed. */
  readonly outputSchema: JsonValue | undefined;
  /** What is left for this command of those limits that its command line keeps itself. */
  readonly limits: OwnLimits;
  /** The session to resume; null: start a new one. */
  readonly resume: string | null;
}

export interface OwnLimits {
  readonly maxTurns?: number | undefined;
  readonly maxCostUsd?: number | undefined;
}

export interface AgentCommand {
  /** Without the program, and without the prompt, which comes on standard input: an argument has a most of 128 KiB. */
  readonly args: readonly string[];
  /** Below what the stage's own `env` says. */
  readonly env: Readonly<Record<string, string>>;
  readonly files: readonly GuestFile[];
  /** Absent: none. A shell makes them before it starts the program. */
  readonly links?: readonly GuestLink[];
}

/** Where the command line looks for what lies elsewhere. */
export interface GuestLink {
  readonly guestPath: string;
  readonly target: string;
}

export interface GuestFile {
  readonly guestPath: string;
  readonly text: string;
}

export interface AgentProvider {
  readonly name: LlmProvider;
  /** As `cliOf` says; the mock agent plays each of them. */
  readonly cli: AgentCli;
  /** The folder in which the command line keeps the sessions that it can resume. */
  readonly sessionFolder: string;
  /**
   * Reads the use of the whole session from a line of the session's file. Present if the stream reports tokens of the
   * whole session, including earlier commands. Absent: the stream reports tokens of this command only.
   */
  readonly sessionUse?: (line: string) => AgentUsage | null;
  command(task: AgentTask): AgentCommand;
  stream(): AgentStream;
}

export const AGENT_HOME = '/home/sandbox';
export const AGENT_WORKSPACE = '/workspace';
