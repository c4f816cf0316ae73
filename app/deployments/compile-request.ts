/** The requests and answers of the process that compiles deployments. They are JSON. */
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import type { Notify } from '../../domain/notification/notify.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { PlanWire } from '../../domain/plan/wire.ts';
import type { KnownImage } from '../../setup/images/images.ts';
import type { ReceiverPlace } from '../notifications/refuse-receivers.ts';
import type { CompiledRun } from '../start/compile-run.ts';

export interface CompileRequest {
  readonly spec: string;
  /** The name of the spec in diagnostics. */
  readonly specName: string;
  /** The absolute path of the folder with the files of the version. No other file is read. */
  readonly folder: string;
  /** The folder of the spec in it. */
  readonly specDir: string;
  /** Hashes by paths of repositories, as in `VersionRow`. */
  readonly bundles: Readonly<Record<string, string>>;
  readonly params: Readonly<Record<string, string>>;
  /** The parameters with which the version was deployed, and its repositories were sent. */
  readonly deployedParams: Readonly<Record<string, string>>;
  /** Parameters may lack, because triggers give them: the version is deployed. */
  readonly isDeployed: boolean;
  /** Folders of this host that the owner allowed, absolute. */
  readonly allowMounts: readonly string[];
  readonly allowGit: readonly string[];
  /** Whether the mock agent plays the agents, which then need no key. */
  readonly mockAgents: boolean;
  /** The file of receivers that are added to those of the spec. Null: none are. */
  readonly notify: NotifyFile | null;
}

export interface NotifyFile {
  /** YAML or JSON. */
  readonly text: string;
  /** Its name in diagnostics. */
  readonly name: string;
}

/** A plan that was compiled, in its wire form. */
export interface CompiledVersion {
  readonly kind: 'compiled';
  readonly plan: PlanWire;
  readonly written: PlanWire;
  readonly images: readonly KnownImage[];
  readonly places: readonly (readonly [
    string,
    { readonly file: string; readonly line: number; readonly column: number },
  ])[];
  readonly source: CompiledRun['source'];
  /** Whether the mock agent plays an agent of the plan. */
  readonly arePlayed: boolean;
  /** Names of the parameters that the spec has, in its order. */
  readonly paramNames: readonly string[];
  readonly triggers: readonly Trigger[];
  /** With the receivers that are added. */
  readonly notify: Notify;
  /** The place of the URL or the secret of each receiver, by name. */
  readonly receiverPlaces: readonly (readonly [string, ReceiverPlace])[];
  /** Mistakes that only a deployment may not have. */
  readonly deployProblems: readonly Diagnostic[];
  /** Warnings. */
  readonly diagnostics: readonly Diagnostic[];
}

export type CompileAnswer =
  | CompiledVersion
  /** Mistakes of the spec, all of them. */
  | { readonly kind: 'mistakes'; readonly diagnostics: readonly Diagnostic[] }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string; readonly remedy: string | null };
