"""The keywords of OpenAPI 3.0 to 3.2, Swagger 2, AsyncAPI 2 and 3, and JSON Schema."""

from __future__ import annotations

from typing import Final

from surfaces.keywords.grammar import Grammar, read_grammar

_TYPES: Final = "string|number|integer|boolean|array|object|null"
_LIMITS: Final = """format=format default maximum=number exclusiveMaximum=number/flag minimum=number
    exclusiveMinimum=number/flag maxLength=count minLength=count pattern=pattern maxItems=count
    minItems=count uniqueItems=flag enum=list multipleOf=number"""
_SCHEMA: Final = f"""
schema: $ref=ref type={_TYPES}/[{_TYPES}] {_LIMITS} $id $schema $anchor $comment $dynamicRef
    $dynamicAnchor $vocabulary $defs={{schema/flag}} definitions={{schema/flag}} title description
    example examples externalDocs deprecated=flag/text readOnly=flag writeOnly=flag nullable=flag
    xml discriminator=text/mapping const maxProperties=count minProperties=count required=[text]
    properties={{schema/flag}} patternProperties={{schema/flag}} additionalProperties=schema/flag
    items=schema/flag prefixItems=[schema/flag] allOf=[schema/flag]
    oneOf=[schema/flag] anyOf=[schema/flag] not=schema/flag contains=schema/flag minContains=count
    maxContains=count if=schema/flag then=schema/flag else=schema/flag dependencies
    dependentSchemas={{schema/flag}} dependentRequired propertyNames=schema/flag additionalItems
    unevaluatedProperties=schema/flag unevaluatedItems=schema/flag contentMediaType
    contentEncoding contentSchema=schema/flag
"""
_METHODS: Final = " ".join(
    f"{each}=operation"
    for each in ("get", "put", "post", "delete", "options", "head", "patch", "trace")
)

OPENAPI: Final = read_grammar(f"""
document: openapi=text/number $self info=info jsonSchemaDialect=text servers=[server]
    paths={{path-item:path}} webhooks={{path-item}} components=components
    security=[mapping] tags=[mapping] externalDocs=mapping
info: title summary description termsOfService contact license version
server: url=text! description name variables={{variable}}
variable: enum=list default description
components: schemas={{schema/flag}} responses={{response}} parameters={{parameter}}
    examples={{example}} requestBodies={{request-body}} headers={{header}}
    securitySchemes={{security-scheme}} links={{mapping}} callbacks={{mapping}}
    pathItems={{path-item}} mediaTypes={{media-type}}
path-item: $ref=ref summary description servers=[server] parameters=[parameter]
    {_METHODS} query=operation additionalOperations={{operation}}
operation: tags=[text] summary description externalDocs operationId=text parameters=[parameter]
    requestBody=request-body responses={{response:status}} callbacks={{mapping}} deprecated=flag
    security=[mapping] servers=[server]
header: $ref=ref description required=flag deprecated=flag style
    allowEmptyValue=flag explode=flag allowReserved=flag schema=schema example examples={{example}}
    content={{media-type:media}}
parameter: +header summary name=text! in=query|header|path|cookie|querystring!
    style=matrix|label|form|simple|spaceDelimited|pipeDelimited|deepObject|cookie
request-body: $ref=ref description content={{media-type:media}}! required=flag
media-type: $ref=ref schema=schema/flag itemSchema=schema example examples={{example}}
    encoding={{encoding}} prefixEncoding itemEncoding
encoding: contentType=text headers={{header}} style explode=flag allowReserved=flag encoding
    prefixEncoding itemEncoding
response: $ref=ref summary description headers={{header}} content={{media-type:media}} links
example: $ref=ref summary description value dataValue serializedValue externalValue=text
security-scheme: $ref=ref type=apiKey|http|mutualTLS|oauth2|openIdConnect! description name=text
    in=query|header|cookie scheme=text bearerFormat flows=flows openIdConnectUrl=text
    oauth2MetadataUrl deprecated=flag
flows: implicit=flow password=flow clientCredentials=flow authorizationCode=flow
    deviceAuthorization=flow
flow: authorizationUrl tokenUrl refreshUrl deviceAuthorizationUrl scopes=mapping
{_SCHEMA}""")

SWAGGER: Final = read_grammar(f"""
document: swagger=text/number info=info host=text basePath=text schemes=[http|https|ws|wss]
    consumes=[media] produces=[media] paths={{path-item:path}} definitions={{schema}}
    parameters={{parameter}} responses={{response}} securityDefinitions={{security-scheme}}
    security=[mapping] tags=[mapping] externalDocs=mapping
info: title summary description termsOfService contact license version
path-item: $ref=ref summary description parameters=[parameter] {_METHODS}
operation: tags=[text] summary description externalDocs operationId=text consumes=[media]
    produces=[media] parameters=[parameter] responses={{response:status}}
    schemes=[http|https|ws|wss] deprecated=flag security=[mapping]
value: type={_TYPES}|file items=value/mapping collectionFormat=csv|ssv|tsv|pipes|multi example
    {_LIMITS}
header: +value description
parameter: $ref=ref name=text! in=query|header|path|formData|body! description required=flag
    schema=schema allowEmptyValue=flag +value examples deprecated
response: $ref=ref description schema=schema headers={{header}} examples
security-scheme: type=basic|apiKey|oauth2! description name=text in=query|header
    flow=implicit|password|application|accessCode authorizationUrl tokenUrl scopes=mapping
{_SCHEMA.replace(f"type={_TYPES}/", f"type={_TYPES}|file/")}""")

_ASYNC_OPERATION: Final = "summary description tags externalDocs bindings traits security"
_MESSAGE: Final = """correlationId contentType name title summary description tags externalDocs
    bindings examples=[message-example] traits"""
_OF_DRAFT_7: Final = _SCHEMA.replace(" items=schema/flag ", " items=schema/flag/[schema/flag] ")
_ASYNC_SHARED: Final = f"""
info: title version description termsOfService contact license tags externalDocs
message-example: headers payload name summary
{_OF_DRAFT_7}"""

ASYNCAPI_2: Final = read_grammar(f"""
document: asyncapi=text id info=info servers={{server}} defaultContentType=text
    channels={{channel}} components=components tags externalDocs
server: $ref=ref url=text description protocol=text protocolVersion variables security bindings tags
components: schemas={{schema/flag}} servers={{server}} serverVariables channels={{channel}}
    messages={{message}} securitySchemes={{mapping}} parameters={{parameter}} correlationIds
    operationTraits messageTraits serverBindings channelBindings operationBindings messageBindings
channel: $ref=ref description servers subscribe=operation publish=operation
    parameters={{parameter}} bindings
operation: operationId=text {_ASYNC_OPERATION} message=message
message: $ref=ref oneOf=[message] messageId=text headers=schema/flag payload=schema/flag
    schemaFormat=text {_MESSAGE}
foreign-message: $ref=ref messageId headers payload schemaFormat {_MESSAGE}
parameter: $ref=ref description schema=schema location
{_ASYNC_SHARED}""")

ASYNCAPI_3: Final = read_grammar(f"""
document: asyncapi=text id info=info servers={{server}} defaultContentType=text
    channels={{channel}} operations={{operation}} components=components
server: $ref=ref host=text protocol=text protocolVersion pathname title summary description
    variables security tags externalDocs bindings
components: schemas={{payload/flag}} servers={{server}} serverVariables channels={{channel}}
    operations={{operation}} messages={{message}} securitySchemes={{mapping}}
    parameters={{parameter}} replies={{reply}} replyAddresses correlationIds externalDocs tags
    operationTraits messageTraits serverBindings channelBindings operationBindings messageBindings
channel: $ref=ref address=text/null messages={{message}} title summary description servers
    parameters={{parameter}} tags externalDocs bindings
operation: $ref=ref action=send|receive! channel=channel title {_ASYNC_OPERATION}
    messages=[message] reply=reply
reply: $ref=ref address channel=channel messages=[message]
message: $ref=ref headers=payload/flag payload=payload/flag {_MESSAGE}
payload: +schema schemaFormat=text schema
foreign-payload: schemaFormat schema
parameter: $ref=ref enum=list default description examples location
{_ASYNC_SHARED}""")


def grammar_of(version: str) -> Grammar:
    """Return the grammar of AsyncAPI by the version of a document."""
    return ASYNCAPI_2 if version.startswith("2.") else ASYNCAPI_3
