/** Loads a definition: from its source to its spec, with diagnostics at the lines of the source. */
import { NO_NOTIFY, type Notify } from '../../domain/notification/notify.ts';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';
import { readStepMachine } from '../read-skill.ts';
import { createReadSpec } from '../read-spec.ts';
import { type AppliedSettings, createUnapplied } from '../../domain/language/compile/apply-settings.ts';
import type { HostSettings } from '../../domain/language/compile/stage/host-settings.ts';
import { loadText } from '../../domain/language/load.ts';
import type { MissingParams } from '../../domain/language/read/params.ts';
import { sortDiagnostics } from '../../domain/language/text/diagnostics.ts';
import type { Position } from '../../domain/language/text/tree.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { bundle, BundleError } from '../../skill-kit/bundle/bundle.ts';
import { listFiles } from '../list-files.ts';
import { trackListed, trackRead } from '../track-reads.ts';
import type { Place, Reply } from './reply.ts';
import { runDefinition } from './run-definition.ts';
import { toSdkWords } from './sdk-words.ts';
import { placesInSource } from './source-places.ts';

export interface LoadDefinitionOptions {
  readonly params: Readonly<Record<string, string>>;
  /** Settings that override those of the definition; null: no settings. */
  readonly settings: HostSettings | null;
  /** As `CompileOptions.baseDir`; absent: the folder of the definition. */
  readonly baseDir?: string;
  /** As `CompileOptions.missingParams`. */
  readonly missingParams?: MissingParams;
  /** All variables of this process; few of them reach the definition. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Returns the name of a file in diagnostics, from its full path. */
  readonly shown: (path: string) => string;
  /** Folders in which the specs that the definition uses may be. */
  readonly roots: readonly string[];
  /** As in `SpecValues`. */
  readonly onRead?: ((path: string) => void) | undefined;
  readonly limitMs?: number;
}

export interface LoadedDefinition {
  /** The spec that the code made, as JSON. Null: it made none. */
  readonly spec: string | null;
  /** Null when a diagnostic is an error. */
  readonly plan: Plan | null;
  readonly diagnostics: readonly Diagnostic[];
  /** Text of the files that diagnostics and places of mounts name, as far as it can be read. */
  readonly sources: ReadonlyMap<string, string>;
  /** For each host path that the plan mounts: the call that made the step or box, or the definition. */
  readonly mountPlaces: ReadonlyMap<string, Place>;
  /** The effects of `settings`. */
  readonly appliedSettings: AppliedSettings;
  /** As in `CompiledText`. */
  readonly triggers: readonly Trigger[];
  readonly notify: Notify;
  readonly deployProblems: readonly Diagnostic[];
}

/**
 * Runs the author's code, and all code that it imports, in a separate process.
 * @param entry  full path
 */
export async function loadDefinition(entry: string, options: LoadDefinitionOptions): Promise<LoadedDefinition> {
  const { found, deployFound, mountPlaces, ...judged } = await judgeDefinition(entry, options);
  const sources = new Map<string, string>();
  const named = [
    ...[...found, ...deployFound].map(({ place }) => place.file),
    ...[...mountPlaces.values()].map(({ file }) => file),
  ];
  for (const file of new Set(named)) {
    const text = readSource(file);
    if (text !== null) sources.set(options.shown(file), text);
  }
  const toDiagnostic = ({ place, ...what }: PlacedDiagnostic): Diagnostic => ({
    ...what,
    file: options.shown(place.file),
    line: place.line,
    column: place.column,
  });
  const shownPlaces = [...mountPlaces].map(
    ([path, place]) => [path, { ...place, file: options.shown(place.file) }] as const,
  );
  return {
    ...judged,
    diagnostics: sortDiagnostics(found.map(toDiagnostic)),
    deployProblems: sortDiagnostics(deployFound.map(toDiagnostic)),
    sources,
    mountPlaces: new Map(shownPlaces),
  };
}

/** The source for an excerpt; null: there is no source. */
function readSource(file: string): string | null {
  try {
    return readFileWithin(file, { roots: null, mostBytes: SOURCE_BYTES }).toString();
  } catch (error) {
    if (error instanceof FileRefusal) return null;
    throw error;
  }
}

/** The size limit of a file whose lines an excerpt shows. */
const SOURCE_BYTES = 16 * 1024 * 1024;

type PlacedDiagnostic = Pick<Diagnostic, 'code' | 'severity' | 'message' | 'remedy'> & { readonly place: Place };

interface Judgement extends Pick<LoadedDefinition, 'spec'> {
  readonly plan: Plan | null;
  readonly found: readonly PlacedDiagnostic[];
  /** The `deployProblems`. */
  readonly deployFound: readonly PlacedDiagnostic[];
  readonly mountPlaces: ReadonlyMap<string, Place>;
  readonly appliedSettings: AppliedSettings;
  readonly triggers: readonly Trigger[];
  readonly notify: Notify;
}

async function judgeDefinition(entry: string, options: LoadDefinitionOptions): Promise<Judgement> {
  const createUnusableDiagnostic = (message: string, remedy: string, place: Place | null): PlacedDiagnostic => ({
    code: 'spec/definition',
    severity: 'error',
    message,
    remedy,
    place: place ?? { file: entry, line: 1, column: 1 },
  });
  let code: string;
  try {
    code = await bundleDefinition(entry);
  } catch (error) {
    if (!(error instanceof BundleError)) throw error;
    const found = error.mistakes.map(({ message, place }) =>
      createUnusableDiagnostic(message, 'correct the code at this place', place),
    );
    return createUnloaded(found);
  }
  const reply: Reply = await runDefinition(code, { cwd: dirname(entry), ...options });
  if (reply.kind === 'unusable')
    return createUnloaded([createUnusableDiagnostic(reply.message, reply.remedy, reply.place)]);
  const { plan, diagnostics, deployProblems, mountPlaces, appliedSettings, triggers, notify } = await loadText(
    reply.source,
    entry,
    {
      baseDir: options.baseDir ?? dirname(entry),
      listFiles: trackListed(listFiles, options.onRead),
      params: options.params,
      ...(options.missingParams === undefined ? {} : { missingParams: options.missingParams }),
      readStepMachine,
      readSpec: trackRead(createReadSpec(options.roots), options.onRead),
      ...(options.settings === null ? {} : { settings: options.settings }),
    },
  );
  const stageAt = placesInSource(reply.source, reply.stages);
  const placeOf = (position: Position): Place =>
    stageAt(position) ?? reply.place ?? { file: entry, line: 1, column: 1 };
  const lineOf = (line: number): string => {
    const place = placeOf({ line, column: 1 });
    return `${options.shown(place.file)}:${place.line}:${place.column}`;
  };
  const toPlaced = ({ code: codeOf, severity, message, remedy, file, line, column }: Diagnostic): PlacedDiagnostic => ({
    code: codeOf,
    severity,
    // A part is a spec: its author has written the keys of the spec.
    ...(file === entry
      ? { ...toSdkWords({ message, remedy }, lineOf), place: placeOf({ line, column }) }
      : { message, remedy, place: { file, line, column } }),
  });
  return {
    spec: reply.source,
    plan,
    found: diagnostics.map(toPlaced),
    deployFound: deployProblems.map(toPlaced),
    triggers,
    notify,
    mountPlaces: new Map([...mountPlaces].map(([path, position]) => [path, placeOf(position)])),
    appliedSettings,
  };
}

function createUnloaded(found: readonly PlacedDiagnostic[]): Judgement {
  return {
    spec: null,
    plan: null,
    found,
    deployFound: [],
    mountPlaces: new Map(),
    appliedSettings: createUnapplied(),
    triggers: [],
    notify: NO_NOTIFY,
  };
}

/** Voidbox is not part of the bundle: the package that loads the definition also makes and compiles it. */
async function bundleDefinition(entry: string): Promise<string> {
  const { code } = await bundle(entry, {
    external: { voidbox: pathToFileURL(join(findPackageRoot(), 'dist/sdk/index.js')).href },
    output: { sourcemap: 'inline', sourcemapPathTransform: (source, map) => resolve(dirname(map), source) },
  });
  return code;
}
