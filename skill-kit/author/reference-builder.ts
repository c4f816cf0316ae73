/** Reference skills: texts by topic, without steps. */
import type { Frontmatter, ReferenceDefinition, TopicConfig } from '../../domain/step-machine/definition.ts';
import { refuse } from './refuse.ts';

/** A version that the author gives, or that of the nearest package.json, read when the skill is built. */
export type VersionStrategy =
  | { readonly version?: string | undefined; readonly resolveVersion?: undefined }
  | { readonly version?: undefined; readonly resolveVersion: true };

export type ReferenceBuilderConfig = Frontmatter &
  VersionStrategy & { readonly name: string; readonly description: string };

export class ReferenceBuilder {
  readonly #config: ReferenceBuilderConfig;
  readonly #topics = Object.create(null) as Record<string, TopicConfig>;

  constructor(config: ReferenceBuilderConfig) {
    this.#config = config;
  }

  topic(name: string, config: TopicConfig): this {
    addTopic(`reference "${this.#config.name}"`, this.#topics, name, config);
    return this;
  }

  /** @throws {Error} when name, description or topics are missing */
  build(): ReferenceDefinition {
    const { name, description, version = DEFAULT_VERSION, resolveVersion = false } = this.#config;
    if (!name) refuse(new Error('reference: name is required'));
    if (!description) refuse(new Error(`reference "${name}": description is required. Agents choose a skill by it.`));
    if (Object.keys(this.#topics).length === 0)
      refuse(
        new Error(
          `reference "${name}": at least one topic is required. Add one with .topic(name, { label, content }).`,
        ),
      );
    return Object.freeze({
      ...this.#config,
      kind: 'reference',
      version,
      resolveVersion,
      topics: Object.freeze({ ...this.#topics }),
    });
  }
}

export const DEFAULT_VERSION = '0.0.0';

export function reference(config: ReferenceBuilderConfig): ReferenceBuilder {
  return new ReferenceBuilder(config);
}

/** @throws {Error} for a name that is taken */
export function addTopic(where: string, topics: Record<string, TopicConfig>, name: string, config: TopicConfig): void {
  if (Object.hasOwn(topics, name))
    return refuse(new Error(`${where}: topic "${name}" is registered twice. Give one of them another name.`));
  topics[name] = Object.freeze({ ...config });
}
