/** Compiles the work of a stage in its VM. */
import type { StageTexts } from './texts.ts';
import type { ParamValues } from '../../grammar/param-values.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import type { ReadStepMachine } from '../../problems/skill-params.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';
import { COMMAND_DEFAULTS } from '../../../plan/defaults.ts';
import type { EnvPlan, WorkPlan } from '../../../plan/plan.ts';
import { type AgentContext, compileAgent } from './agent.ts';
import { warnOfAgentPrograms } from '../../problems/agent-programs.ts';
import { compileEnv } from './env.ts';
import { compileStepMachine, llmOf } from './skill.ts';
import { workspaceFolder } from '../vm/workspace.ts';
import type { Links } from '../../link/linked.ts';
import { warnOfParamsInCode } from '../../problems/params-in-code.ts';
import { refuseValuesInCode } from '../../problems/scripts.ts';
import { warnOfShellInProgram } from '../../problems/shell-in-program.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';

interface WorkContext {
  readonly what: string;
  readonly env: readonly EnvPlan[];
  readonly params: ParamValues;
  readonly texts: StageTexts | null;
  readonly readStepMachine: ReadStepMachine | null;
  readonly fill: Filler;
  readonly baseDir: string | null;
  readonly problems: Problems;
}

/** Returns the work in the stage's VM; null if it could not be read. */
export function compileWork(
  spec: Spec,
  stage: StageSpec,
  links: Links | null,
  { params, texts, readStepMachine, fill, baseDir, what, env, problems }: WorkContext,
): WorkPlan | null {
  const { run, prompt, skill } = stage;
  if (stage.isShell) return { kind: 'shell', env };
  const agent: AgentContext = {
    what,
    llm: llmOf(spec, stage),
    env,
    baseDir,
    fill,
    compileEnv: (layer) => compileEnv([layer], [], fill),
    problems,
  };
  if (prompt !== null) return compileAgent(stage, prompt, agent);
  if (skill !== null)
    return compileStepMachine(stage, skill, { ...agent, params, texts: texts?.plan ?? null, readStepMachine });
  if (run === null) return null;
  warnOfShellInProgram(run, what, problems);
  if (run.script !== null) refuseValuesInCode(run.script, spec, what, problems);
  warnOfParamsInCode(stage, spec, what, problems);
  warnOfAgentPrograms(stage, spec, what, problems);
  if (stage.mode !== null && stage.timeoutMs !== null)
    problems.error(
      'spec/bad-value',
      stage.mode.at,
      `${what} has \`mode: service\` and \`timeout_secs\``,
      'remove one of them: a service has no time limit',
    );
  const stdin = links?.stdin ?? null;
  return {
    kind: 'command',
    program: compileProgram(run.program, what, fill, problems),
    args: run.args.map((arg) => fill(arg)),
    cwd:
      run.cwd === null
        ? stage.workspace === null
          ? COMMAND_DEFAULTS.cwd
          : workspaceFolder(stage.workspace, fill)
        : compileCwd(run.cwd, what, problems),
    env,
    stdin: stdin === null ? { kind: 'none' } : { kind: 'stage-output', stage: spec.stages[stdin]!.name.value },
    ...(stage.mode === null ? {} : { service: true }),
  };
}

/** Fills the parameters in. An undeclared parameter was already reported as such. */
function compileProgram(program: Located<string>, what: string, fill: Filler, problems: Problems): string {
  const errorsBefore = problems.errorCount();
  const filled = fill(program);
  if (filled === '' && program.value !== '' && problems.errorCount() === errorsBefore)
    problems.error(
      'spec/bad-value',
      program.at,
      `\`program\` of ${what} is ${quote(program.value)}, which is empty once its parameters are filled in`,
      'set the parameter to the name of a program',
    );
  return filled;
}

function compileCwd(cwd: Located<string>, what: string, problems: Problems): string {
  if (cwd.value.startsWith('/')) return cwd.value;
  problems.error(
    'spec/bad-path',
    cwd.at,
    `\`cwd\` of ${what} is ${quote(cwd.value)}, which is not absolute`,
    'write it from the root, such as /workspace',
  );
  return cwd.value;
}
