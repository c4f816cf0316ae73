/** The parts of a session besides its state: the skill and its environment. */
import { randomUUID } from 'node:crypto';
import type { Command } from '../../domain/step-machine/command.ts';
import type { Handshake, ReferenceLoader, SkillDefinition } from '../../domain/step-machine/definition.ts';
import { diagnose } from '../../domain/step-machine/diagnose.ts';
import type { SessionEvent } from '../../domain/step-machine/event.ts';
import { factsOf, type SkillFacts } from '../../domain/step-machine/facts.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import { processRedaction, type Redaction } from './skill-environment.ts';
import { startTimer } from './timer.ts';

export interface RuntimeOptions {
  /** Default: an unknown host with no tools. */
  readonly handshake?: Partial<Handshake>;
  /** Default: none, so that a skill that loads a reference fails. */
  readonly refs?: ReferenceLoader;
  /** The hash of the code that the definition comes from. */
  readonly codeHash?: string;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** Waits before an action is tried again. */
  readonly sleep?: (durationMs: number) => Promise<void>;
  /** Default: a line on stderr. */
  readonly warn?: (message: string) => void;
  /** True: commands for which this is true are not carried out here, but handed to `onDeferred`. */
  readonly defer?: (command: Command) => boolean;
  readonly onDeferred?: (command: Command) => void;
  /** Hears every event, after it was applied: applied in the same order to the same state they give the same session. */
  readonly onEvent?: (event: SessionEvent) => void;
  /** Hears every command. */
  readonly onCommand?: (command: Command) => void;
  /** Returns the records that were flushed from the state, oldest first; called when a callback reads the history. */
  readonly olderRecords?: () => readonly StepRecord[];
  /** Takes values of variables out of what callbacks give and throw. Default: those that this process was granted. */
  readonly redaction?: Redaction;
}

export interface SkillRuntime extends Omit<RuntimeOptions, 'handshake' | 'codeHash'> {
  readonly definition: SkillDefinition;
  readonly facts: SkillFacts;
  readonly handshake: Handshake;
  readonly refs: ReferenceLoader;
  readonly now: () => number;
  readonly sleep: (durationMs: number) => Promise<void>;
  readonly warn: (message: string) => void;
  readonly olderRecords: () => readonly StepRecord[];
  readonly redaction: Redaction;
}

const sound = new WeakSet<SkillDefinition>();

/** @throws {Error} naming every mistake that can be seen in the definition */
export function createRuntime(definition: SkillDefinition, options: RuntimeOptions = {}): SkillRuntime {
  if (!sound.has(definition)) {
    const errors = diagnose(definition).filter(({ severity }) => severity === 'error');
    if (errors.length > 0)
      throw new Error(
        `Skill "${definition.name}" cannot run:\n${errors.map(({ message, step }) => (step?.includes('/') ? `${step}: ${message}` : message)).join('\n')}`,
      );
    sound.add(definition);
  }
  return {
    ...options,
    definition,
    facts: factsOf(definition, options.codeHash ?? null),
    handshake: { host: 'generic', toolsAvailable: [], isSubagent: false, ...options.handshake },
    refs: options.refs ?? NO_REFERENCES,
    now: options.now ?? Date.now,
    sleep: options.sleep ?? waitFor,
    warn: options.warn ?? warnOnStderr,
    olderRecords: options.olderRecords ?? (() => []),
    redaction: options.redaction ?? processRedaction(),
  };
}

export function newSessionId(): string {
  return randomUUID();
}

async function waitFor(durationMs: number): Promise<void> {
  await new Promise<void>((resolve) => void startTimer(durationMs, resolve));
}

function warnOnStderr(message: string): void {
  process.stderr.write(`[skill-kit] ${message}\n`);
}

/** An empty text instead of a reference would send the agent off without it, and without an error. */
const NO_REFERENCES: ReferenceLoader = {
  load(filename) {
    throw new Error(
      `The reference "${filename}" cannot be loaded: this session was started without a reference loader. Pass \`refs\`.`,
    );
  },
  asset(path) {
    throw new Error(
      `The asset "${path}" cannot be found: this session was started without a reference loader. Pass \`refs\`.`,
    );
  },
};
