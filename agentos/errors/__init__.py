"""Every error that agentos raises on purpose.

    AgentosError
      ConfigurationError          a file, a name or an argument of the person in charge is wrong
        UnknownAgent, UnknownToolbox, UnknownConversation, UnknownCall, SessionRefused
      StoreError                  the store cannot do what was asked
        StoreTooNew, StoreTooOld, StoreDamaged, QueryRefused, CopyRefused, StoreUnavailable
          StoreBusy
        IndexUnavailable
          IndexDamaged
      AnchorError                 what a file of anchors cannot do
        AnchorDamaged, AnchorRefused
      BundleError                 what a bundle cannot do
        ExportRefused, ImportRefused, BundleRefused
          BundleDamaged
      KernelClosed                the kernel is closed or closing
      ControlError                a running kernel cannot be asked from another process
        KernelUnreachable, ControlRefused, ControlTaken
      ConversationBusy            a bound of a conversation's intake is reached
      ConversationHeld            an imported conversation that nobody has let go on
      ConversationClosed
        ConversationErased
      EraseRefused                a conversation cannot be erased, or not now, or not alone
        EraseTurnOpen, EraseHasForks, EraseOfSubagent, EraseTooEarly, EraseUnanswered
      InputRefused                blank or oversized text
      ForkRefused                 a conversation cannot be forked there, or not with that result
      ReplayRefused               a conversation cannot be run anew from there
      NotInDoubt                  there is nothing to resolve about a call
        AlreadyResolved
      ResourceError               a lent thing cannot be had or given back
        ReleaseFailed, ResourceNotFound, ResourceScopeInvalid, ResourceClosed, ResourceBroken
        ResourceBusy, ResourceAccessTimeout, ResourceUpgradeRefused, ResourceDeadlock
        ResourceLimitReached
        FolderGone, FolderLimitReached
        ProcessError              a process that is to stay does not
          ProcessNotStarted, ProcessLost, ProcessGaveUp
      CodecError                  a value has no canonical form
      ModelError                  what a model adapter reports, with its kind
      ToolError                   what a tool may raise to choose the words that the model sees
      SystemRaised                a system broke its contract; fails one turn

An error names the thing, the place and the way out. Attributes are for programs, the sentence is for people, and neither
carries a secret or the text of a conversation.
"""

from agentos.errors.base import AgentosError
from agentos.errors.configuration import (
    ConfigurationError,
    SessionRefused,
    UnknownAgent,
    UnknownCall,
    UnknownConversation,
    UnknownToolbox,
)
from agentos.errors.conversations import (
    AlreadyResolved,
    ConversationBusy,
    ConversationClosed,
    ConversationErased,
    ConversationHeld,
    EraseHasForks,
    EraseOfSubagent,
    EraseRefused,
    EraseTooEarly,
    EraseTurnOpen,
    EraseUnanswered,
    ForkRefused,
    InputRefused,
    NotInDoubt,
    ReplayRefused,
)
from agentos.errors.kernels import (
    CodecError,
    ControlError,
    ControlRefused,
    ControlTaken,
    KernelClosed,
    KernelUnreachable,
    ModelError,
    SystemRaised,
    ToolError,
)
from agentos.errors.resources import (
    FolderGone,
    FolderLimitReached,
    ProcessError,
    ProcessGaveUp,
    ProcessLost,
    ProcessNotStarted,
    ReleaseFailed,
    ResourceAccessTimeout,
    ResourceBroken,
    ResourceBusy,
    ResourceClosed,
    ResourceDeadlock,
    ResourceError,
    ResourceLimitReached,
    ResourceNotFound,
    ResourceScopeInvalid,
    ResourceUpgradeRefused,
    WouldBlock,
)
from agentos.errors.storage import (
    AnchorDamaged,
    AnchorError,
    AnchorRefused,
    BundleDamaged,
    BundleError,
    BundleRefused,
    CopyRefused,
    ExportRefused,
    ImportRefused,
    IndexDamaged,
    IndexUnavailable,
    QueryRefused,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreTooOld,
    StoreUnavailable,
)

__all__ = [
    "AgentosError",
    "AlreadyResolved",
    "AnchorDamaged",
    "AnchorError",
    "AnchorRefused",
    "BundleDamaged",
    "BundleError",
    "BundleRefused",
    "CodecError",
    "ConfigurationError",
    "ControlError",
    "ControlRefused",
    "ControlTaken",
    "ConversationBusy",
    "ConversationClosed",
    "ConversationErased",
    "ConversationHeld",
    "CopyRefused",
    "EraseHasForks",
    "EraseOfSubagent",
    "EraseRefused",
    "EraseTooEarly",
    "EraseTurnOpen",
    "EraseUnanswered",
    "ExportRefused",
    "FolderGone",
    "FolderLimitReached",
    "ForkRefused",
    "ImportRefused",
    "IndexDamaged",
    "IndexUnavailable",
    "InputRefused",
    "KernelClosed",
    "KernelUnreachable",
    "ModelError",
    "NotInDoubt",
    "ProcessError",
    "ProcessGaveUp",
    "ProcessLost",
    "ProcessNotStarted",
    "QueryRefused",
    "ReleaseFailed",
    "ReplayRefused",
    "ResourceAccessTimeout",
    "ResourceBroken",
    "ResourceBusy",
    "ResourceClosed",
    "ResourceDeadlock",
    "ResourceError",
    "ResourceLimitReached",
    "ResourceNotFound",
    "ResourceScopeInvalid",
    "ResourceUpgradeRefused",
    "SessionRefused",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreTooNew",
    "StoreTooOld",
    "StoreUnavailable",
    "SystemRaised",
    "ToolError",
    "UnknownAgent",
    "UnknownCall",
    "UnknownConversation",
    "UnknownToolbox",
    "WouldBlock",
]
