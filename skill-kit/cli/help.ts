import type { ReferenceDefinition, SkillDefinition } from '../../domain/step-machine/definition.ts';

const SKILL_FLAGS = `
  --params <json>         the skill's parameters; for start, and for advance without a session
  --step <name>           the step that is answered
  --output <json>         its answer
  --history <json>        what was completed: an array of {step, response, actionResult?}, or one of them on each line
  --session <new|id>      keep the session in a file; start takes new, advance and cleanup the id that it printed
  --session-dir <path>    where session files lie; default: a folder for temporary files that is yours alone
  --output-mode <mode>    file: you append {"type":"output","step":…,"output":…} to the session file, then advance (default);
                          flag: you pass --step and --output
  --durable               keep the session on a Temporal server: it survives processes and power cuts; needs Voidbox installed.
                          start prints its "session"; advance takes it with --session, and the prompt's --turn
  --subskill <name>       run that sub-skill without its dispatcher
  --host <name>           the agent's host, e.g. claude-code
  --tools <a,b>           tools that the agent has
  --subagent              the agent was started by another

--params, --output and --history also read a file (--output-file <path> and so on) or, given as -, standard input.
Results are JSON on stdout. Exit code: 0 for every answer, a refused one too; 1 for errors; 2 for a wrong command line.
`;

export function skillHelp({ name, version, description, subskills, topics }: SkillDefinition): string {
  const subs = Object.keys(subskills ?? {});
  const commands = [
    ['start [flags]', 'begins; prints the first prompt'],
    ['advance [flags]', 'hands in an answer; prints what comes next'],
    ['cleanup --session <id>', "removes a session's files"],
    ['mcp [flags]', 'serves the skill over MCP; mcp --help says how'] as const,
    ...(topics === undefined ? [] : [['topics', 'lists the topics'] as const, ['topic <name>', 'prints one'] as const]),
    ...subs.map((sub) => [`${sub} [start|advance] [flags]`, 'that sub-skill without its dispatcher'] as const),
  ];
  const lines = commands.map(([command = '', what = '']) => `  ${command.padEnd(22)}  ${what}`);
  return `${title(name, version, description)}Commands:\n${lines.join('\n')}\n\nFlags:${SKILL_FLAGS}`;
}

export function referenceHelp({ name, version, description }: ReferenceDefinition): string {
  return `${title(name, version, description)}Commands:\n  topics        lists the topics (default)\n  topic <name>  prints one\n  mcp [flags]   serves the topics over MCP; mcp --help says how\n`;
}

function title(name: string, version: string, description: string | undefined): string {
  return `${name} ${version}\n${description === undefined ? '' : `${description}\n`}\n`;
}
