import { listTriggerSecrets } from '../../../domain/delivery/trigger.ts';
import { listNotifySecrets } from '../../../domain/notification/notify.ts';
import { remedyOf } from '../../../domain/errors/error-code.ts';
import type { Plan } from '../../../domain/plan/plan.ts';
import { demandedVariablesOf } from '../../../domain/plan-rules/variables.ts';
import { type UnsupportedPart, findUnsupportedParts } from '../../../domain/plan-rules/unsupported.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { quoteArgument } from '../../../domain/security/typed-argument.ts';
import type { Spec } from '../../../domain/language/read/spec.ts';
import type { Located, Position } from '../../../domain/language/text/tree.ts';
import { findWritableRepositories } from '../../../client/runs/writable-repositories.ts';
import { hasLogin, readLogins } from '../../../app/start/agent-logins.ts';
import { type BaseDirOption, resolveBaseDir } from '../../../app/start/base-dir.ts';
import { addBaseDirOption } from '../../start/spec-options.ts';
import { AppError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { readSettings, toSettingsJson } from '../../../app/start/host-settings.ts';
import { writeSettings } from '../../start/compile-notices.ts';
import { type LoadedSpec, loadSpec, type MountPlace } from '../../../app/start/load-spec.ts';
import { parseParam } from '../../start/spec-options.ts';
import {
  codeOfMissing,
  describeMissingAgentSkill,
  suggestSkillFix,
  findMissingAgentSkills,
} from '../../../app/start/skill-files.ts';
import { describeUnknownAddress, findUnknownAddresses } from '../../../app/start/plan-addresses.ts';
import { findUnusableRepositories } from '../../../app/start/plan-repositories.ts';
import { findRefusedImages } from '../../../app/start/plan-images.ts';
import {
  codeOfRefusal,
  describeRefusal,
  describeWritableRepository,
  findMountsRefusedHere,
  suggestRefusalRemedy,
} from '../../../app/start/plan-mounts.ts';
import { type Finding, renderDiagnostics } from '../../render/spec/diagnostics.ts';
import { REQUIRE_PARAMS_HELP, renderMissingParams } from '../../render/spec/missing-params.ts';
import { renderPlanSummary } from '../../render/spec/plan.ts';
import { renderEvents } from '../../render/spec/triggers.ts';

interface Options extends BaseDirOption {
  readonly json?: boolean;
  readonly param?: Record<string, string>;
  readonly requireParams?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument(
        '<file>',
        'a spec in YAML or JSON, or a definition in TypeScript or JavaScript; - reads a spec from standard input',
      )
      .option('--param <name=value>', 'set a parameter of the spec; repeatable', parseParam)
      .option('--require-params', REQUIRE_PARAMS_HELP);
    addBaseDirOption(command);
  },
  async execute([file = ''], options, context) {
    const settings = readSettings(context);
    const baseDir = resolveBaseDir(options, context.cwd);
    const values = {
      params: options.param ?? {},
      settings,
      allowsMissingParams: options.requireParams !== true,
      ...(baseDir === undefined ? {} : { baseDir }),
    };
    const loaded = await loadSpec(file, values, context);
    const { plan, triggers, notify, diagnostics, appliedSettings, missingParams } = loaded;
    const here = plan === null ? null : await checkOnThisHost(plan, loaded, context);
    const unsupported =
      plan === null ? [] : findUnsupportedParts(plan, 'read', await documentsOf(plan, loaded, context));
    if (options.json) {
      await context.stdout.write(
        `${JSON.stringify({ file: loaded.file, valid: plan !== null, name: plan?.name ?? null, kind: plan?.kind ?? null, stages: plan?.stages.map((stage) => stage.id) ?? [], missingParams, triggers: triggers.map(({ name, source }) => ({ name, source: source.kind })), triggerSecrets: listTriggerSecrets(triggers), receivers: notify.receivers.map(({ name, states, target }) => ({ name, states, kind: target.kind })), receiverSecrets: listNotifySecrets(notify), diagnostics, unsupported, settings: toSettingsJson(settings, appliedSettings), onThisHost: here })}\n`,
      );
      return plan === null ? EXIT.usage : EXIT.success;
    }
    if (diagnostics.length > 0)
      await context.stderr.write(
        renderDiagnostics(diagnostics, loaded.sources, { style: context.stderr.style, width: context.stderr.width() }),
      );
    if (plan === null) return EXIT.usage;
    await writeSettings(settings, appliedSettings, context.stderr);
    await context.stdout.write(renderPlanSummary(loaded.file, plan, { style: context.stdout.style }));
    await context.stdout.write(renderEvents(triggers, notify));
    await context.stdout.write(renderMissingParams(missingParams));
    if (unsupported.length > 0) await context.stderr.write(renderUnsupported(unsupported, context.stderr));
    await printHere(here, loaded, context);
    return EXIT.success;
  },
});

/**
 * Whether the documents of the plan are read. On the embedded stack, missing documents are reported separately. With
 * your own server they stay unread, because its worker reads none.
 */
async function documentsOf(plan: Plan, { baseDir }: LoadedSpec, context: CliContext): Promise<'read' | 'unread'> {
  if (!context.env.temporalConfigured) return 'read';
  return (await findMissingAgentSkills(plan, { baseDir, allow: [] }, context)).length === 0 ? 'read' : 'unread';
}

const SHOWN_PARTS = 20;

function renderUnsupported(parts: readonly UnsupportedPart[], { style }: CliContext['stderr']): string {
  const lines = parts.slice(0, SHOWN_PARTS).map(({ stage, reason }) => `  stage ${sanitizeLine(`${stage} ${reason}`)}`);
  const more = parts.length > SHOWN_PARTS ? [`  … ${parts.length - SHOWN_PARTS} more`] : [];
  return `\n${style.bold('not in this build:')} the spec is valid, but \`run\` rejects it:\n${[...lines, ...more].join('\n')}\n`;
}

interface OnThisHost {
  /** On your own server the host of the worker decides. */
  readonly server: 'embedded' | 'own';
  /** Mounts that `run` would reject here; null if this host does not decide. */
  readonly refusedMounts: readonly Finding[] | null;
  /** Repositories of workspaces that a run would fail to pack; null if this host does not decide. */
  readonly unusableRepositories: readonly Finding[] | null;
  /** Addresses that `run` asks for, or refuses without a terminal; null when this host does not decide. */
  readonly refusedAddresses: readonly Finding[] | null;
  /** Writable mounts that hold a repository; null when this host does not decide. */
  readonly writableRepositories: readonly Finding[] | null;
  /** Missing files of skills; null if this host does not decide. */
  readonly missingFiles: readonly Finding[] | null;
  /** Also set with your own server, because the client that starts a run reads the images. */
  readonly refusedImages: readonly Finding[];
  /** Logins that end too early or do not exist. Also set with your own server, because the client reads them. */
  readonly refusedLogins: readonly Finding[];
  /** Triggers that follow a deployment which the service does not have; null if the service cannot be asked now. */
  readonly absentUpstreams: readonly Finding[] | null;
  /** Secrets that a deployment of a spec with triggers or receivers would lack; null as for `absentUpstreams`. */
  readonly absentSecrets: readonly Finding[] | null;
  /** Variables that the plan reads; null if the worker may have values of its own. */
  readonly variables: readonly HostVariable[] | null;
}

interface HostVariable {
  readonly name: string;
  /** The stage that requires the variable. Null: stages that read it get an empty value if it is not set. */
  readonly demandedBy: string | null;
  readonly isSet: boolean;
}

async function checkOnThisHost(plan: Plan, loaded: LoadedSpec, context: CliContext): Promise<OnThisHost> {
  const { env, cwd } = context;
  const refusedImages = await findImages(plan, loaded, context);
  const refusedLogins = findLogins(plan, loaded, context);
  const written = readWritten(loaded);
  const absentUpstreams = await findUpstreams(loaded, written, context);
  const absentSecrets = await findSecrets(plan, loaded, written, context);
  if (env.temporalConfigured)
    return {
      server: 'own',
      refusedMounts: null,
      unusableRepositories: null,
      refusedAddresses: null,
      writableRepositories: null,
      missingFiles: null,
      refusedImages,
      refusedLogins,
      absentUpstreams,
      absentSecrets,
      variables: null,
    };
  const missing = await findMissingAgentSkills(plan, { baseDir: loaded.baseDir, allow: [] }, context);
  const refused = await findMountsRefusedHere(plan, loaded.baseDir, env);
  const unusable = await findUnusableRepositories(
    plan,
    { baseDir: loaded.baseDir, refused: new Set(refused.map(({ hostPath }) => hostPath)) },
    env,
  );
  const demanded = new Map(demandedVariablesOf(plan.stages).map(({ name, stage }) => [name, stage]));
  return {
    server: 'embedded',
    refusedImages,
    refusedLogins,
    absentUpstreams,
    absentSecrets,
    variables: plan.hostVariables.map((name) => ({
      name,
      demandedBy: demanded.get(name) ?? null,
      isSet: env.variables[name] !== undefined || hasLogin(name, env),
    })),
    refusedMounts: refused.map((mount): Finding => ({
      code: codeOfRefusal(mount),
      severity: 'warning',
      message: describeRefusal(mount, loaded.baseDir, cwd),
      remedy: suggestRefusalRemedy(mount, loaded.baseDir, env, cwd),
      ...placeOf(mount.hostPath, loaded),
    })),
    unusableRepositories: unusable.map(({ code, message, hostPath }): Finding => ({
      code,
      severity: 'warning',
      message,
      remedy: remedyOf(code) ?? '',
      ...placeOf(hostPath, loaded),
    })),
    refusedAddresses: (await findUnknownAddresses(plan, loaded.baseDir, [], env)).map((unknown): Finding => ({
      code: 'cli/git-refused',
      severity: 'warning',
      ...describeUnknownAddress(unknown),
      ...placeOf(unknown.url, loaded),
    })),
    writableRepositories: (await findWritableRepositories(plan)).map((found): Finding => ({
      code: 'cli/mount-git',
      severity: 'warning',
      ...describeWritableRepository(found),
      ...placeOf(found.hostPath, loaded),
    })),
    missingFiles: missing.map((skill): Finding => ({
      code: codeOfMissing(skill),
      severity: 'warning',
      message: describeMissingAgentSkill(skill),
      remedy: suggestSkillFix(skill, loaded.baseDir, cwd),
      ...placeOf(skill.path, loaded),
    })),
  };
}

async function findImages(plan: Plan, loaded: LoadedSpec, context: CliContext): Promise<readonly Finding[]> {
  const places = { baseDir: loaded.baseDir, given: {}, allow: [], named: loaded.mountPlaces };
  return (await findRefusedImages(plan, places, context)).map(({ image, ...finding }): Finding => ({
    ...finding,
    severity: 'warning',
    ...placeOf(image, loaded),
  }));
}

/** Reads the spec again, for places. Null: a program made it. */
type ReadWritten = () => Promise<Pick<Spec, 'on' | 'notify'> | null>;

function readWritten({ text, file }: LoadedSpec): ReadWritten {
  return async () => {
    const { parseSpec } = await import('../../../domain/language/read/parse.ts');
    return text === null ? null : parseSpec(text, file).spec;
  };
}

/** Most specs follow no deployment, and load no client of the service. */
async function findUpstreams(
  { triggers, file }: LoadedSpec,
  readSpec: ReadWritten,
  { env }: CliContext,
): Promise<readonly Finding[] | null> {
  if (triggers.every(({ source }) => source.kind !== 'run')) return [];
  const { findAbsentUpstreams } = await import('../../../app/deployments/absent-upstreams.ts');
  const absent = await findAbsentUpstreams(triggers, env);
  const written = (await readSpec())?.on ?? [];
  return (
    absent?.map((name): Finding => ({
      code: 'deploy/no-upstream',
      severity: 'warning',
      message: `a trigger follows the deployment ${sanitizeLine(name)}, which does not exist`,
      remedy: remedyOf('deploy/no-upstream') ?? '',
      file,
      ...(written.find(({ run }) => run?.of.value === name)?.run?.of.at ?? { line: 1, column: 1 }),
    })) ?? null
  );
}

/** Only a spec that is meant for a deployment needs secrets. */
async function findSecrets(
  plan: Plan,
  { triggers, notify, file }: LoadedSpec,
  readSpec: ReadWritten,
  { env }: CliContext,
): Promise<readonly Finding[] | null> {
  if (triggers.length === 0 && notify.receivers.length === 0) return [];
  const names = [...listTriggerSecrets(triggers), ...listNotifySecrets(notify), ...plan.hostVariables];
  const { findAbsentSecrets } = await import('../../../app/deployments/absent-secrets.ts');
  const absent = await findAbsentSecrets(plan.name, [...new Set(names)].toSorted(), env);
  const written = await readSpec();
  return (
    absent?.map((name): Finding => ({
      code: 'deploy/secret-missing',
      severity: 'warning',
      message: `the deployment ${sanitizeLine(plan.name)} would have no secret ${name}`,
      remedy: `set it before \`voidbox deploy\`: voidbox secret set ${name} --deployment ${quoteArgument(plan.name)}`,
      file,
      ...(findNamed([written?.on, written?.notify], name) ?? { line: 1, column: 1 }),
    })) ?? null
  );
}

/** Keys of triggers and receivers whose value is the name of a secret. */
const SECRET_KEYS: readonly string[] = ['secret', 'ca', 'token', 'password', 'creds', 'tlsCa'];

/** Returns the place of a secret's name below a value of a spec. */
function findNamed(value: unknown, name: string): Position | null {
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, each] of Object.entries(value)) {
    const located = each as Partial<Located<string>> | null;
    if (SECRET_KEYS.includes(key) && located?.value === name) return located.at ?? null;
    const found = findNamed(each, name);
    if (found !== null) return found;
  }
  return null;
}

const LOGIN_CODES = ['host/login-expires', 'host/login-invalid'] as const;

/** The first one that `run` would refuse. */
function findLogins(plan: Plan, { file }: LoadedSpec, context: CliContext): readonly Finding[] {
  try {
    readLogins(plan.stages, context);
    return [];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { message, remedy } = error;
    const code = LOGIN_CODES.find((known) => known === error.code);
    if (code === undefined) throw error;
    return [{ code, severity: 'warning', message, remedy: remedy ?? '', file, line: 1, column: 1 }];
  }
}

function placeOf(path: string, { file, mountPlaces }: LoadedSpec): MountPlace {
  return mountPlaces.get(path) ?? { file, line: 1, column: 1 };
}

/** The spec is valid: what this host refuses is a warning, and the exit code stays 0. */
async function printHere(
  here: OnThisHost | null,
  { plan, sources }: LoadedSpec,
  { stderr, advise }: CliContext,
): Promise<void> {
  const mounts = plan?.scopes.flatMap(({ sandbox }) => sandbox.mounts).length ?? 0;
  if (here?.server === 'own' && mounts > 0)
    await stderr.write(
      advise(
        '\nmounts: TEMPORAL_* names your own Temporal server, so the host of the worker decides: voidbox worker --allow-mounts FOLDER\n',
      ),
    );
  const warning = stderr.style.yellow('warning');
  for (const { name, demandedBy } of (here?.variables ?? []).filter(({ isSet }) => !isSet))
    await stderr.write(
      demandedBy === null
        ? `${warning}: the variable ${name} is not set here: stages that read it get an empty value\n`
        : `${warning}[host/variable-missing]: the variable ${name} is not set here, and \`run\` refuses: stage ${demandedBy} demands it. Set it: export ${name}=…\n`,
    );
  for (const warned of [here?.writableRepositories ?? [], here?.absentUpstreams ?? [], here?.absentSecrets ?? []])
    if (warned.length > 0)
      await stderr.write(`\n${renderDiagnostics(warned, sources, { style: stderr.style, width: stderr.width() })}`);
  const refused = [
    ...(here?.refusedMounts ?? []),
    ...(here?.unusableRepositories ?? []),
    ...(here?.refusedAddresses ?? []),
    ...(here?.missingFiles ?? []),
    ...(here?.refusedImages ?? []),
    ...(here?.refusedLogins ?? []),
  ];
  if (refused.length === 0) return;
  const findings = refused.map((finding) => ({ ...finding, remedy: advise(finding.remedy) }));
  const shown = renderDiagnostics(findings, sources, { style: stderr.style, width: stderr.width() });
  await stderr.write(`\n${stderr.style.bold('on this host')} \`run\` would refuse:\n${shown}`);
}
