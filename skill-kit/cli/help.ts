import type { ReferenceDefinition, SkillDefinition } from '../../domain/step-machine/definition.ts';

const SKILL_FLAGS = `
  --params <json>         the skill's parameters; for start, and for advance without a session
  --step <name>           the step to answer
  --output <json>         the answer
  --history <json>        the completed steps: an array of {step, response, actionResult?}, or one of them on each line
  --session <new|id>      keep the session in a file; start takes new, advance and cleanup take the id that it printed
  --session-dir <path>    the folder of session files; default: a private folder for temporary files
  --output-mode <mode>    file: you append {"type":"output","step":…,"output":…} to the session file, then advance (default);
                          flag: you pass --step and --output
  --durable               keep the session on a Temporal server: it survives processes and power cuts; needs Voidbox installed.
                          start prints the "session"; pass it to advance with --session, and the prompt's turn with --turn
  --subskill <name>       run the sub-skill directly, without its dispatcher
  --host <name>           the agent's host, e.g. claude-code
  --tools <a,b>           the agent's tools
  --subagent              the agent is a subagent

--params, --output and --history also read a file (--output-file <path> and so on) or, with the value -, standard input.
Results are JSON on stdout. Exit code: 0 for every reply, a rejected answer too; 1 for errors; 2 for wrong usage.
`;

export function skillHelp({ name, version, description, subskills, topics }: SkillDefinition): string {
  const subs = Object.keys(subskills ?? {});
  const commands = [
    ['start [flags]', 'starts a session; prints the first prompt'],
    ['advance [flags]', 'sends an answer; prints the next prompt'],
    ['cleanup --session <id>', "removes a session's files"],
    ['mcp [flags]', 'serves the skill over MCP; see mcp --help'] as const,
    ...(topics === undefined
      ? []
      : [['topics', 'lists the topics'] as const, ['topic <name>', 'prints a topic'] as const]),
    ...subs.map(
      (sub) => [`${sub} [start|advance] [flags]`, 'runs the sub-skill directly, without its dispatcher'] as const,
    ),
  ];
  const lines = commands.map(([command = '', what = '']) => `  ${command.padEnd(22)}  ${what}`);
  return `${title(name, version, description)}Commands:\n${lines.join('\n')}\n\nFlags:${SKILL_FLAGS}`;
}

export function referenceHelp({ name, version, description }: ReferenceDefinition): string {
  return `${title(name, version, description)}Commands:\n  topics        lists the topics (default)\n  topic <name>  prints a topic\n  mcp [flags]   serves the topics over MCP; see mcp --help\n`;
}

function title(name: string, version: string, description: string | undefined): string {
  return `${name} ${version}\n${description === undefined ? '' : `${description}\n`}\n`;
}
