/** Finds the Rust toolchain that compiles the keeper and the guest agent, and checks whether it can do so. */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from '../environment.ts';
import { compareVersions, findOnPath, isExecutable } from './find-program.ts';
import type { SetupContext } from './piece.ts';
import { runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';

/** The same version as `rust-version` in Cargo.toml. */
export const MINIMUM_RUST = '1.85';
/** The same version as `rust-version` of native/binding. */
export const MINIMUM_RUST_OF_BINDING = '1.88';

export interface Cargo {
  readonly path: string;
  readonly version: string;
}

/** Returns the first cargo that is new enough. @throws SetupError that names the cargo that was found instead */
export async function findCargo(context: SetupContext, minimum = MINIMUM_RUST): Promise<Cargo> {
  const unfit: string[] = [];
  for (const path of [...findOnPath(context.env, ['cargo']), join(cargoHome(context.env), 'bin', 'cargo')]) {
    if (!isExecutable(path)) continue;
    const version = /^cargo (\S+)/.exec((await runProgram(context.env, path, ['--version'])).stdout)?.[1];
    if (version !== undefined && compareVersions(version, minimum) >= 0) return { path, version };
    // rustup's cargo without a toolchain exists, but only prints an explanation.
    unfit.push(version === undefined ? `${path} --version prints no version` : `${path} is version ${version}`);
  }
  throw new SetupError(
    `Rust ${minimum} or newer is needed to compile ${minimum === MINIMUM_RUST ? 'the keeper and the guest agent' : 'the binding for Node'}, and ${unfit.length === 0 ? 'there is no cargo on PATH' : [...new Set(unfit)].join(', ')}.`,
    unfit.length === 0
      ? 'Install Rust from https://rustup.rs and retry.'
      : 'Update it with `rustup update stable && rustup default stable`, or install Rust from https://rustup.rs.',
  );
}

/**
 * Returns the reason why the binaries cannot be compiled, if it is known before compiling; null if there is no known
 * reason.
 */
export async function findRustBlocker(context: SetupContext, minimum = MINIMUM_RUST): Promise<SetupError | null> {
  try {
    await findCargo(context, minimum);
  } catch (error) {
    if (error instanceof SetupError) return error;
    throw error;
  }
  if (findOnPath(context.env, ['cc']).length > 0 || namesLinker(context.env)) return null;
  return new SetupError(
    'Rust links with a C compiler, and there is no cc on PATH.',
    'Install gcc and the headers of the C library (Debian: gcc libc6-dev) and retry.',
  );
}

function cargoHome({ variables }: Environment): string {
  return variables['CARGO_HOME'] ?? join(variables['HOME'] ?? homedir(), '.cargo');
}

/** Returns true if cargo is configured to link with another program than `cc`. */
function namesLinker(env: Environment): boolean {
  if (Object.keys(env.variables).some((name) => /^CARGO_TARGET_\w+_LINKER$/.test(name))) return true;
  return ['config.toml', 'config'].some((name) => {
    try {
      return /^\s*linker\s*=/m.test(readFileSync(join(cargoHome(env), name), 'utf8'));
    } catch {
      return false;
    }
  });
}
