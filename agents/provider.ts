/** What a provider is: how its command line is called, what it reads, what it prints. One file for each, listed in `registry.ts`. */
import type { AgentCli } from '../domain/agent/agent-cli.ts';
import type { AgentSkill, JsonValue, LlmPlan, LlmProvider } from '../domain/plan/plan.ts';
import type { AgentStream, AgentUsage } from './stream.ts';

export interface AgentTask {
  readonly prompt: string;
  readonly llm: LlmPlan | null;
  readonly skills: readonly AgentSkill[];
  /** What the answer has to be, as JSON; undefined: anything. */
  readonly outputSchema: JsonValue | undefined;
  /** What is left for this command of those limits that its command line keeps itself. */
  readonly limits: OwnLimits;
  /** The session that goes on; null: a new one. */
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
  /** Where its command line keeps the sessions that it can go on with. */
  readonly sessionFolder: string;
  /**
   * The tokens that its stream tells are of the whole session, those of earlier commands among them: what a line of the session's
   * file says of that. Absent: they are of the command alone.
   */
  readonly sessionUse?: (line: string) => AgentUsage | null;
  command(task: AgentTask): AgentCommand;
  stream(): AgentStream;
}

export const AGENT_HOME = '/home/sandbox';
export const AGENT_WORKSPACE = '/workspace';
