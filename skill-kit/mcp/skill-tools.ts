/** A skill as tools: `start`, `advance`, and its topics. */
import type { Handshake, ReferenceLoader, SkillDefinition } from '../../domain/step-machine/definition.ts';
import { errorFacts } from '../drive/action.ts';
import { HOST_TOOLS } from '../prompt/agent-hosts.ts';
import { checkValue } from '../author/schema.ts';
import { callerError, createRefusalReply, resultReply } from './replies.ts';
import type { SessionReply, SessionStore } from './session-store.ts';
import { advanceTool, skillInstructions, startTool } from './tool-texts.ts';
import {
  type Arguments,
  type Caller,
  inexactNumber,
  type ToolReply,
  type ToolSet,
  wrongArguments,
} from './tool-set.ts';
import { listTopics, readTopic, topicTools } from './topic-tools.ts';

export interface SkillToolsOptions {
  readonly store: SessionStore;
  readonly refs: ReferenceLoader;
  /** The server's own settings of the agent; a call of `start` may override them. */
  readonly handshake?: Partial<Handshake>;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export function skillTools(definition: SkillDefinition, options: SkillToolsOptions): ToolSet {
  const { name, topics = {}, version } = definition;
  const { refs, store } = options;
  const now = options.now ?? Date.now;
  const start = startTool(definition);
  const advance = advanceTool();
  return {
    name,
    version,
    instructions: skillInstructions(definition),
    tools: [start, advance, ...topicTools(topics)],
    async call(tool, args, caller) {
      if (tool === 'topics') return listTopics(topics);
      if (tool === 'topic') return readTopic(topics, args['name'], refs);
      // Params that are missing are refused by the skill's own schema, which says what is missing in them.
      const wrong = tool === 'start' ? wrongArguments(start, { params: {}, ...args }) : wrongArguments(advance, args);
      if (wrong !== null) return callerError('arguments', wrong, 'Fix the arguments and call again.');
      const inexact = inexactNumber(args);
      if (inexact !== null) return callerError('arguments', `${inexact}.`, 'Pass it as a string and call again.');
      const reply =
        tool === 'start' ? await begin(definition, options, args, caller) : await continueSession(store, args);
      if ('isError' in reply) return reply;
      return reply.kind === 'refused'
        ? createRefusalReply(reply, args['session'])
        : resultReply(reply.session, reply.result, args['output'], now());
    },
    close: () => store.close(),
  };
}

async function begin(
  definition: SkillDefinition,
  options: SkillToolsOptions,
  args: Arguments,
  caller: Caller,
): Promise<SessionReply | ToolReply> {
  const { params, subskill } = args as { readonly params?: unknown; readonly subskill?: string };
  const subskills = definition.subskills ?? {};
  if (subskill !== undefined && !Object.hasOwn(subskills, subskill)) {
    return callerError(
      'arguments',
      `Skill "${definition.name}" has no sub-skill "${subskill}".`,
      `It has: ${Object.keys(subskills).join(', ')}.`,
    );
  }
  const started = subskill === undefined ? definition : subskills[subskill]!.definition;
  if (started.params !== undefined) {
    const checked = checkValue(started.params, params ?? {}, `skill "${started.name}": params`);
    if (!checked.ok) {
      return callerError(
        'params',
        `Invalid params for skill "${started.name}": ${checked.message}`,
        'Call start again with `params` that fit. Ask the user for what you do not know.',
      );
    }
  }
  const handshake = handshakeOf(args, options.handshake ?? {}, caller);
  return options.store.start({ params, handshake, ...(subskill === undefined ? {} : { subskill }) });
}

function handshakeOf(args: Arguments, told: Partial<Handshake>, caller: Caller): Handshake {
  const { host, subagent, tools } = args as {
    readonly host?: string;
    readonly subagent?: boolean;
    readonly tools?: readonly string[];
  };
  return {
    host: host ?? told.host ?? hostNamed(caller.name),
    toolsAvailable: [...(tools ?? told.toolsAvailable ?? [])],
    isSubagent: subagent ?? told.isSubagent ?? false,
  };
}

/** Clients call themselves by their host's name, some with an ending: `claude-code`, `cursor-vscode`, `gemini-cli-mcp-client`. */
function hostNamed(client: string | undefined): string {
  const name = client?.toLowerCase().replaceAll(/[\s_]+/g, '-') ?? '';
  return Object.keys(HOST_TOOLS).find((host) => name === host || name.startsWith(`${host}-`)) ?? 'generic';
}

async function continueSession(store: SessionStore, args: Arguments): Promise<SessionReply | ToolReply> {
  const { session, step, turn } = args as { readonly session: string; readonly step?: string; readonly turn?: number };
  const hasOutput = args['output'] !== undefined;
  if (step === undefined && !hasOutput) return store.advance(session);
  if (step === undefined)
    return callerError(
      'arguments',
      '`step` is missing: an output answers a step.',
      'Pass the `step` that the last prompt named.',
      { session },
    );
  if (!hasOutput) {
    const remedy =
      "Pass `output`, the JSON that fits the step's `schema`; `{}` where the schema is null. Pass `session` alone to see the step again.";
    return callerError('arguments', `\`output\` is missing: there is no answer to step "${step}".`, remedy, {
      session,
      step,
    });
  }
  return store.advance(session, { step, output: args['output'], ...(turn === undefined ? {} : { turn }) });
}

/** Returns the answer to a call that failed unexpectedly; the server continues in every case. */
export function createBrokenReply(tool: string, cause: unknown): ToolReply {
  const { message, name } = errorFacts(cause);
  return callerError(
    'internal',
    `${tool} failed: ${name}: ${message}`,
    'Tell the user; this is a mistake in the skill or in the server. Other sessions continue.',
  );
}
